// Checks Kubernetes resources against the validators that npm packages generate from the APIs' own schemas, and refuses every
// field that the schema does not know. `tests/envoy/mesh` runs it; `make tools` fetches the packages.
//
// Standard input: a JSON array of {label, resource, partial}. Standard output: a JSON array of {label, path, problem}.
// `partial` is for patches: nothing is missing there. The only argument is the folder with node_modules.
//
// The validators are code and accept unknown fields, as an API server without strict validation does. But they read every
// field that they know, whether it is there or not. So each object is watched, and a field that was never read is unknown.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const modules = resolve(process.argv[2], "node_modules");

/// Where each API's validators are, and what their names begin with.
const APIS = {
  "v1": ["kubernetes-models", "IoK8sApiCoreV1"],
  "apps/v1": ["kubernetes-models", "IoK8sApiAppsV1"],
  "networking.k8s.io/v1": ["kubernetes-models", "IoK8sApiNetworkingV1"],
  "gateway.networking.k8s.io/v1": ["@kubernetes-models/gateway-api", "IoK8sSigsGatewayApiApisV1"],
  "gateway.envoyproxy.io/v1alpha1": ["@kubernetes-models/envoy-gateway", "ComGithubEnvoyproxyGatewayApiV1alpha1"],
  "extensions.istio.io/v1alpha1": ["@kubernetes-models/istio", "ExtensionsIstioIoV1alpha1"],
  "networking.istio.io/v1": ["@kubernetes-models/istio", "NetworkingIstioIoV1"],
  "networking.istio.io/v1alpha3": ["@kubernetes-models/istio", "NetworkingIstioIoV1alpha3"],
};

/// Where the APIs take anything. Everywhere else an object that no schema describes is a problem too.
const FREE = {
  WasmPlugin: /^\/spec\/pluginConfig$/,
  EnvoyFilter: /^\/spec\/configPatches\/\d+\/patch\/value$/,
  EnvoyExtensionPolicy: /^\/spec\/wasm\/\d+\/config$/,
};

/// The same data, which remembers in `seen` what is read of it.
function watched(data, path, seen) {
  if (data === null || typeof data !== "object") return data;
  const read = new Set();
  const members = new Map();
  seen.push({ path, data, read });
  return new Proxy(data, {
    get(target, key) {
      const value = Reflect.get(target, key);
      if (typeof key === "symbol" || !Object.hasOwn(target, key)) return value;
      read.add(key);
      if (!members.has(key)) members.set(key, watched(value, `${path}/${key}`, seen));
      return members.get(key);
    },
    has(target, key) {
      read.add(key);
      return key in target;
    },
  });
}

function unknown(seen, free) {
  const found = [];
  for (const { path, data, read } of seen) {
    const names = Object.keys(data);
    if (names.length === 0 || free?.test(path)) continue;
    for (const name of names.filter((name) => !read.has(name))) {
      found.push({ path: `${path}/${name}`, problem: "the schema does not know this field" });
    }
  }
  return found;
}

async function check({ resource, partial }) {
  const api = APIS[resource.apiVersion];
  if (!api) return [{ path: "/apiVersion", problem: "no schema for this API" }];
  const file = join(modules, api[0], "_schemas", `${api[1]}${resource.kind}.js`);
  let validate;
  try {
    ({ validate } = await import(pathToFileURL(file)));
  } catch (error) {
    return [{ path: "/kind", problem: error.code === "ERR_MODULE_NOT_FOUND" ? "no schema for this kind" : `${error}` }];
  }
  const seen = [];
  const valid = validate(watched(resource, "", seen));
  const errors = valid ? [] : validate.errors;
  const problems = errors
    .filter((error) => !(partial && error.keyword === "required"))
    .map((error) => ({ path: error.instancePath, problem: `${error.keyword} ${JSON.stringify(error.params)}` }));
  return problems.concat(unknown(seen, FREE[resource.kind]));
}

const problems = [];
for (const item of JSON.parse(readFileSync(0, "utf8"))) {
  for (const problem of await check(item)) problems.push({ label: item.label, ...problem });
}
process.stdout.write(JSON.stringify(problems));
