// Puts the pages together and shows the one that the address names, for example #curves/hopper.

const data = JSON.parse(document.getElementById("data").textContent);
const section = (name) => document.getElementById(`page-${name}`);

function figuresPage(place, data) {
  const drawn = data.figures.flatMap(({ name, title, pictures }) =>
    Object.entries(pictures).flatMap(([protocol, sources]) =>
      sources.map((source) => [name, `${title}, ${protocol}`, source])));
  if (drawn.length === 0) place.append(notice("No figure of the paper is here. To make some:", ...data.commands));
  const shown = drawn.map(([name, title, source]) => {
    // Pictures are drawn with two dots a pixel.
    const fit = () => { picture.width = picture.naturalWidth / 2; };
    const picture = element("img", { src: source, alt: title, onload: fit });
    return element("figure", { class: "card", id: `figures/${name}` }, element("figcaption", {}, title), picture);
  });
  place.append(element("div", { class: "pictures" }, ...shown));
}

function makingPage(place, data) {
  const rows = data.making.map(([what, value]) =>
    element("div", {}, element("dt", {}, what), element("dd", {}, value)));
  place.append(
    element("h2", {}, "What it was made of"),
    element("dl", { class: "facts" }, ...rows),
    element("h2", {}, "To run it again"),
    notice("What is finished is not run again; what was stopped goes on where it was.", ...data.all_commands),
  );
}

overviewPage(section("overview"), data);
tablesPage(section("tables"), data);
figuresPage(section("figures"), data);
makingPage(section("making"), data);
// A chart can be drawn only where it is seen, because before that it has no size.
const drawn = { curves: curvesPage(section("curves"), data), inside: insidePage(section("inside"), data) };

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
