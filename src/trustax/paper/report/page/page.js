// Builds the pages and shows the one in the address, for example #curves/hopper.

const data = JSON.parse(document.getElementById("data").textContent);
const section = (name) => document.getElementById(`page-${name}`);

function figuresPage(place, data) {
  const drawn = data.figures.flatMap(({ name, title, pictures }) =>
    Object.entries(pictures).flatMap(([protocol, sources]) =>
      sources.map((source) => [name, `${title}, ${protocol}`, source])));
  if (drawn.length === 0) place.append(notice("There are no figures yet. To create some, run:", ...data.commands));
  const shown = drawn.map(([name, title, source]) => {
    // Images have two dots per pixel.
    const fit = () => { picture.width = picture.naturalWidth / 2; };
    const picture = element("img", { src: source, alt: title, loading: "lazy", decoding: "async", onload: fit });
    return element("figure", { class: "card", id: `figures/${name}` }, element("figcaption", {}, title), picture);
  });
  place.append(element("div", { class: "pictures" }, ...shown));
}

function makingPage(place, data) {
  const rows = data.making.map(([what, value]) =>
    element("div", {}, element("dt", {}, what), element("dd", {}, value)));
  place.append(
    element("h2", {}, "Data, versions and hardware"),
    element("dl", { class: "facts" }, ...rows),
    element("h2", {}, "Commands"),
    notice("Finished runs are not repeated; interrupted runs resume where they stopped.", ...data.all_commands),
  );
}

overviewPage(section("overview"), data);
tablesPage(section("tables"), data);
figuresPage(section("figures"), data);
makingPage(section("making"), data);
// A chart is drawn when its page is shown, because a hidden element has no size.
const drawn = { curves: curvesPage(section("curves"), data), inside: internalsPage(section("inside"), data) };

function show() {
  const [name, part] = location.hash.slice(1).split("/");
  const sections = [...document.querySelectorAll("main > section")];
  const current = sections.find((one) => one === section(name)) ?? sections[0];
  for (const one of sections) one.hidden = one !== current;
  const page = current.id.replace("page-", "");
  document.body.dataset.page = page;
  for (const link of document.querySelectorAll("nav a")) {
    const isCurrent = link.hash === `#${page}`;
    link.toggleAttribute("aria-current", isCurrent);
    if (isCurrent) link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.clientWidth / 3;
  }
  drawn[page]?.show(part);
  const target = part && document.getElementById(`${name}/${part}`);
  if (target) target.scrollIntoView();
  else window.scrollTo(0, 0);
}

window.addEventListener("hashchange", show);
DARK.addEventListener("change", show);
show();
