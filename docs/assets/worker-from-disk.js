// Search in pages that are opened from disk: browsers refuse workers there, so the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const base = new URL(address, location.href);
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const scope = (this.scope = frame.contentWindow);
      const load = (source) =>
        new Promise((resolve) => {
          const script = scope.document.createElement("script");
          script.src = new URL(source, base).href;
          script.onload = resolve;
          scope.document.body.append(script);
        });
      scope.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      scope.importScripts = (...sources) => sources.reduce((done, each) => done.then(() => load(each)), Promise.resolve());
      load(base.href).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.scope.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {}
  };
}
