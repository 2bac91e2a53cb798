// A page that is shown in dark colours is printed in light ones.
{
  const root = document.documentElement;
  let shown;
  window.addEventListener("beforeprint", () => {
    shown = root.dataset.theme;
    root.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => {
    root.dataset.theme = shown;
  });
}
