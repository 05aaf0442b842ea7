// The link to what is on the page: everything is in the fragment of the address, which browsers send to no server.

export const LONGEST = 65_536;
const SHARED = /^(example|openb):|^live$/; // other clusters are only on the machine of the author

async function piped(bytes, stream, most) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader(), parts = [];
  for (let size = 0; ;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) { await reader.cancel(); throw new Error("the policy in the link is too long"); }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

export async function packed(text) {
  const bytes = await piped(new TextEncoder().encode(text), new CompressionStream("deflate-raw"), Infinity);
  let letters = "";
  for (let at = 0; at < bytes.length; at += 8192) letters += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function unpacked(word) {
  const letters = atob(word.replaceAll("-", "+").replaceAll("_", "/")), bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  return new TextDecoder("utf-8", { fatal: true }).decode(await piped(bytes, new DecompressionStream("deflate-raw"), 4 * LONGEST));
}

export async function written({ text, cluster, pod, manifest }) {
  const parts = new URLSearchParams({ policy: await packed(text) });
  if (SHARED.test(cluster)) parts.set("cluster", cluster);
  if (pod) parts.set("pod", pod);
  if (manifest) parts.set("manifest", await packed(manifest));
  return parts.toString();
}

// What a fragment says; null where it names no policy. Raises an error with a sentence where it is damaged.
export async function read(fragment) {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  if (!parts.get("policy")) return null;
  try {
    const manifest = parts.get("manifest");
    return { text: await unpacked(parts.get("policy")), cluster: parts.get("cluster") ?? "", pod: parts.get("pod") ?? "", manifest: manifest ? await unpacked(manifest) : "" };
  } catch (error) {
    throw new Error(`The link is damaged, and its policy cannot be read: ${error.message}`);
  }
}
