// Cases from stdin, as one JSON list; what the client makes of each, with the recorded words, to stdout.
import { read, written } from "./support.mjs";
import { answered } from "./tasks.mjs";

written(await answered(await read()));
