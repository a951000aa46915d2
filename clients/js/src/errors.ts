/** An error of this client: a sentence that says what to do, and a `reason` of one word for programs. */
export class Refused extends Error {
  constructor(readonly reason: string, message: string) {
    super(message);
    this.name = "Refused";
  }
}

/** Return the error for something that this client has no code for. */
export const lacks = (what: string): Refused => new Refused("device", `This client has no ${what}. Use a newer one, or the Python client.`);

/** A role does not answer, or asks to come again. The same bytes are sent later. */
export class Unreachable extends Refused {
  constructor(role: string, why: unknown) {
    super("unreachable", `The ${role} does not answer (${why}). flush() sends again what waits.`);
  }
}

/** For `catch`: return a value if a role did not answer; throw other errors again. */

export const unlessUnreachable =
  <T>(value: T) =>
  (error: unknown): T => {
    if (error instanceof Unreachable) return value;
    throw error;
  };
