// A day with @kubernetes/client-node: argument 1 is the name of the job to make; see ../test_clients.py.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

// The package is installed outside of the checkout, in the folder that the variable names.
const { KubeConfig, CustomObjectsApi, CoreV1Api, Watch, setHeaderOptions, PatchStrategy } =
  createRequire(`${process.env.CLIENT_NODE}/package.json`)("@kubernetes/client-node");

const name = process.argv[2];
const job = JSON.parse(readFileSync(0, "utf8"));
const config = new KubeConfig();
config.loadFromDefault();
const custom = config.makeApiClient(CustomObjectsApi);
const core = config.makeApiClient(CoreV1Api);
const jobs = { group: "batch.volcano.sh", version: "v1alpha1", namespace: "default", plural: "jobs" };

const made = await custom.createNamespacedCustomObject({ ...jobs, body: job });
const listed = await custom.listNamespacedCustomObject(jobs);
const phases = [];
await new Promise((resolve, reject) => {
  const path = `/apis/${jobs.group}/${jobs.version}/namespaces/${jobs.namespace}/${jobs.plural}`;
  const since = { resourceVersion: made.metadata.resourceVersion };
  new Watch(config).watch(path, since, (type, found) => {
    if (found.metadata.name !== name) return;
    phases.push(found.status?.state?.phase ?? "");
    if (phases.at(-1) === "Completed") resolve();
  }, (error) => (error && error.name !== "AbortError" ? reject(error) : resolve())).catch(reject);
});
const patched = await custom.patchNamespacedCustomObject(
  { ...jobs, name, body: { metadata: { labels: { patched: "yes" } } } },
  setHeaderOptions("Content-Type", PatchStrategy.MergePatch),
);
const log = await core.readNamespacedPodLog({ name: `${name}-main-0`, namespace: "default" });
await custom.deleteNamespacedCustomObject({ ...jobs, name });
const left = await custom.listNamespacedCustomObject({ ...jobs, fieldSelector: `metadata.name=${name}` });
const seen = {
  listed: listed.items.map((found) => found.metadata.name),
  phases,
  labels: patched.metadata.labels,
  log,
  left: left.items.length,
};
process.stdout.write(JSON.stringify(seen), () => process.exit(0)); // the watch would keep it alive
