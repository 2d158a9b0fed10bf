/* Rooflines as SVG, and `shape`, which the page uses too. Names from files only become text nodes and values. */
"use strict";

/** An SVG element. */
function shape(tag, properties, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/**
 * A figure for every chiplet, on log axes that are the same for all.
 * panels: caption, peak [MACs per cycle], bandwidth [bytes per cycle, null: unlimited], decades [[x, x], [y, y]], and
 * layers with number, name, colour, intensity, rate and told (pairs of texts). picked(number) is called for a chosen layer.
 */
function rooflines(panels, picked) {
  const WIDTH = 400, HEIGHT = 270, LEFT = 46, RIGHT = 12, TOP = 14, FOOT = 40;

  const written = (power) => {
    const text = { 0: "1", 1: "10", 2: "100" }[((power % 3) + 3) % 3], prefix = { 0: "", 1: "k", 2: "M", 3: "G" }[Math.floor(power / 3)];
    return power < 0 ? "0." + "0".repeat(-power - 1) + "1" : prefix === undefined ? "1e" + power : text + prefix;
  };

  function figure(panel) {
    const [[west, east], [south, north]] = panel.decades;
    const x = (value) => LEFT + ((Math.log10(value) - west) / (east - west)) * (WIDTH - LEFT - RIGHT);
    const y = (value) => TOP + ((north - Math.log10(value)) / (north - south)) * (HEIGHT - TOP - FOOT);
    const [left, right, top, foot] = [x(10 ** west), x(10 ** east), y(10 ** north), y(10 ** south)];
    const drawing = shape("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, role: "group", "aria-label": panel.caption });
    const every = (low, high, room) => Math.max(1, Math.ceil((high - low) / room));
    for (let power = west; power <= east; power += every(west, east, 9)) {
      const at = x(10 ** power);
      drawing.append(shape("line", { x1: at, x2: at, y1: top, y2: foot, class: "grid" }), shape("text", { x: at, y: foot + 14, "text-anchor": "middle", class: "decade-x" }, written(power)));
    }
    for (let power = south; power <= north; power += every(south, north, 10)) {
      const at = y(10 ** power);
      drawing.append(shape("line", { x1: left, x2: right, y1: at, y2: at, class: "grid" }), shape("text", { x: left - 5, y: at + 4, "text-anchor": "end", class: "decade-y" }, written(power)));
    }
    drawing.append(
      shape("rect", { x: left, y: top, width: right - left, height: foot - top, class: "frame" }),
      shape("text", { x: (left + right) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "MACs per byte off the chiplet"),
      shape("text", { x: 0, y: 0, transform: "translate(11 " + (top + foot) / 2 + ") rotate(-90)", "text-anchor": "middle" }, "MACs per cycle"),
      shape("polyline", { points: roof(panel, west, east, south).map(([a, b]) => x(a) + "," + y(b)).join(" "), class: "roof" }),
    );
    const bubble = document.createElement("div");
    bubble.className = "told";
    bubble.hidden = true;
    const points = [...panel.layers].sort((a, b) => a.intensity - b.intensity || a.rate - b.rate).map((layer, at) => {
      const told = [layer.name, ...layer.told.map((pair) => pair.join(""))];
      const point = shape("circle", { cx: x(layer.intensity), cy: y(layer.rate), r: 5, fill: layer.colour, class: "layer", role: "button", tabindex: at ? -1 : 0, "aria-label": told.join(", "), "aria-pressed": "false", "data-number": layer.number });
      const show = () => tell(bubble, drawing, point, told);
      const hide = () => { if (document.activeElement !== point) bubble.hidden = true; };
      point.addEventListener("mouseenter", show);
      point.addEventListener("mouseleave", hide);
      point.addEventListener("focus", show);
      point.addEventListener("blur", () => { bubble.hidden = true; });
      point.addEventListener("click", () => { reach(points, at); picked(layer.number); });
      point.addEventListener("keydown", (event) => {
        const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowUp: at + 1, ArrowDown: at - 1, Home: 0, End: points.length - 1 };
        if (event.key === "Enter" || event.key === " ") picked(layer.number);
        else if (event.key in steps) reach(points, Math.max(0, Math.min(points.length - 1, steps[event.key])));
        else return;
        event.preventDefault();
      });
      return point;
    });
    drawing.append(...points);
    const caption = document.createElement("figcaption");
    caption.textContent = panel.caption;
    const made = document.createElement("figure");
    made.append(caption, drawing, bubble);
    return made;
  }

  /** Corners of a roof: up along the bandwidth, then level. */
  function roof(panel, west, east, south) {
    const low = 10 ** west, high = 10 ** east, level = [high, panel.peak];
    if (panel.bandwidth === null) return [[low, panel.peak], level];
    const ridge = panel.peak / panel.bandwidth;
    if (ridge <= low) return [[low, panel.peak], level];
    const first = Math.max(low, 10 ** south / panel.bandwidth); // the axes may begin above the foot of the slope
    return ridge >= high ? [[first, panel.bandwidth * first], [high, panel.bandwidth * high]] : [[first, panel.bandwidth * first], [ridge, panel.peak], level];
  }

  function reach(points, at) {
    points.forEach((point, i) => point.setAttribute("tabindex", i === at ? 0 : -1));
    points[at].focus();
  }

  /** The bubble of a point, above it or below, where there is more room. */
  function tell(bubble, drawing, point, told) {
    const [name, ...rest] = told, strong = document.createElement("strong");
    strong.textContent = name;
    bubble.replaceChildren(strong, ...rest.flatMap((text, at) => (at ? [document.createElement("br"), text] : [text])));
    bubble.hidden = false;
    const around = bubble.parentNode.getBoundingClientRect(), spot = point.getBoundingClientRect();
    const across = spot.left + spot.width / 2 - around.left, above = spot.top - around.top - 6 - bubble.offsetHeight, below = spot.bottom - around.top + 6;
    bubble.style.left = Math.max(0, Math.min(across - bubble.offsetWidth / 2, around.width - bubble.offsetWidth)) + "px";
    bubble.style.top = (above > 0 ? above : below) + "px";
  }

  return panels.map(figure);
}
