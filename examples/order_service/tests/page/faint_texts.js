(() => {
  // The contrast of WCAG 2, which should be at least 4.5.
  const parts = (color) => color.match(/[\d.]+/g).map(Number);
  const linear = (part) => part <= 10.3 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (element) => {
    const color = parts(getComputedStyle(element).backgroundColor);
    return color[3] === 0 ? ground(element.parentElement) : color;
  };
  const contrast = (element) => {
    const lights = [parts(getComputedStyle(element).color), ground(element)].map(luminance);
    return (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
  };
  const ownText = (element) => Array.from(element.childNodes)
    .filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data).join("").trim();
  return Array.from(document.querySelectorAll("body *:not(script)"))
    .filter((element) => ownText(element) && contrast(element) < 4.5)
    .map((element) => `${contrast(element).toFixed(2)}: ${ownText(element)}`);
})()
