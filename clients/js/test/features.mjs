// {records, cases: [{map}]} from stdin; the features of every record by every map, and what was treated, to stdout.
import { readMap } from "../dist/features.mjs";
import { read, written } from "./support.mjs";

const given = await read();
const found = [];
for (const { map } of given.cases) {
  const made = await readMap(map);
  const mapped = given.records.map((record) => {
    try {
      return made.mapped(record);
    } catch (error) {
      if (error.name !== "Refused") throw error;
      return { refused: error.message };
    }
  });
  found.push({ dim: made.dim, mapped: mapped.map((each) => ({ ...each, features: each.features && [...each.features] })) });
}
written(found);
