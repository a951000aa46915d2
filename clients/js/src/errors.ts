/** What this client refuses, as a sentence that says what to do; `reason` is one word for programs. */
export class Refused extends Error {
  constructor(readonly reason: string, message: string) {
    super(message);
    this.name = "Refused";
  }
}

/** Of what this client has no code for. */
export const lacks = (what: string): Refused => new Refused("device", `This client has no ${what}: use a newer one, or the Python client.`);

/** Nobody answered, or somebody asked to come again: to be tried later with the same bytes. */
export class Unreachable extends Refused {
  constructor(role: string, why: unknown) {
    super("unreachable", `The ${role} does not answer (${why}): flush() sends again what waits here.`);
  }
}

/** For `catch`: a value instead, if nobody answered; other errors are thrown on. */
export const unlessUnreachable =
  <T>(value: T) =>
  (error: unknown): T => {
    if (error instanceof Unreachable) return value;
    throw error;
  };
