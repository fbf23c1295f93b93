// Plotly, which the page carries packed, at less than half its size. The page's policy knows the
// digest of what comes out: nothing else would run.
async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

if (!("DecompressionStream" in window)) {
  document.body.classList.add("undrawn");
  return;
}
const library = document.createElement("script");
library.textContent = await unpacked(document.getElementById("library").textContent);
document.head.append(library); // which runs it
