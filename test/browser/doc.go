// Package browser tests the dashboard of package server in a real browser, Debian's Chromium: every page and action, with and without JavaScript,
// in light and dark, narrow, and by keyboard alone. Its module has the driver, so that users of the service do not get that.
package browser
