"""Clicks "buy" twice in headless Chromium, and checks what the page and the service say.

Usage: double_click.py FIRST_SERVICE SECOND_SERVICE PICTURE_DIRECTORY
"""

import json
import pathlib
import shutil
import sys
import tempfile
import urllib.request

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=700,520",
]
PATIENCE_SECONDS = 20


def browser(profile):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser")
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


class Shop:
    """The page in one tab."""

    def __init__(self, driver, url):
        self.driver = driver
        driver.get(url)
        self.tab = driver.current_window_handle
        self.wait_for(lambda: self.text("#stock").isdigit(), "the stock is shown")

    def focus(self):
        self.driver.switch_to.window(self.tab)

    def text(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector).text

    def answers(self):
        """Class and text of every line, newest first."""
        lines = self.driver.find_elements(By.CSS_SELECTOR, "#answers li")
        return [(line.get_attribute("class"), line.text) for line in lines]

    def click(self):
        self.driver.find_element(By.ID, "buy").click()

    def double_click(self):
        button = self.driver.find_element(By.ID, "buy")
        ActionChains(self.driver).double_click(button).perform()

    def wait_for(self, condition, what):
        WebDriverWait(self.driver, PATIENCE_SECONDS, poll_frequency=0.02).until(
            lambda _: condition(), message=f"not seen: {what}"
        )


def get(url, path):
    with urllib.request.urlopen(url + path) as answer:
        return json.load(answer)


def check(what, found, expected):
    print(f"{'ok   ' if found == expected else 'WRONG'} {what}: {found!r}")
    if found != expected:
        sys.exit(f"expected {expected!r}")


def kinds(answers):
    return sorted(kind for kind, _ in answers)


def double_click_in_one_tab(shop, url, pictures):
    shop.double_click()
    shop.wait_for(lambda: len(shop.answers()) == 2, "two answers")
    shop.wait_for(lambda: shop.text("#stock") == "19", "a stock of 19")
    shop.driver.save_screenshot(str(pictures / "double_click.png"))
    check("answers to a double click", kinds(shop.answers()), ["busy", "made"])
    texts = dict(shop.answers())
    check("the second click's answer", texts["busy"], "already being processed")
    check("orders", get(url, "/orders")["count"], 1)


def click_in_two_tabs(first, second, urls, pictures):
    first.focus()
    first.click()
    second.focus()
    second.click()
    second.wait_for(lambda: len(second.answers()) == 1, "an answer in the second tab")
    second.driver.save_screenshot(str(pictures / "second_tab.png"))
    check("the second tab's answer", second.answers(), [("busy", "already being processed")])
    first.focus()
    first.wait_for(lambda: len(first.answers()) == 3, "a third answer in the first tab")
    check("the first tab's answer", first.answers()[0][0], "made")
    check("orders, by the first service", get(urls[0], "/orders")["count"], 2)
    check("orders, by the second service", get(urls[1], "/orders")["count"], 2)
    check("stock", get(urls[1], "/items/kettle")["stock"], 18)


def main():
    *urls, pictures = sys.argv[1:]
    pictures = pathlib.Path(pictures)
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = browser(profile)
        try:
            first = Shop(driver, urls[0])
            double_click_in_one_tab(first, urls[0], pictures)
            driver.switch_to.new_window("tab")
            second = Shop(driver, urls[1])
            click_in_two_tabs(first, second, urls, pictures)
        finally:
            driver.quit()
    print(f"pictures: {pictures}/double_click.png, {pictures}/second_tab.png")


if __name__ == "__main__":
    main()
