// A page that is shown in dark colours is printed in light ones.
{
  const root = document.documentElement;
  let wasDark = false;
  window.addEventListener("beforeprint", () => {
    wasDark = root.dataset.theme === "dark";
    if (wasDark) root.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => {
    if (wasDark) root.dataset.theme = "dark";
  });
}
