// What the built client is: the names that it exports, and the formats that it reads.
import * as client from "../dist/bandanna.mjs";

process.stdout.write(JSON.stringify({ exports: Object.keys(client).sort(), versions: client.VERSIONS }) + "\n");
