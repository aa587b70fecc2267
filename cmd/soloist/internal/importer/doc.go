// Package importer makes the YAML of soloist cron from what other schedulers read: crontabs, manifests of Kubernetes CronJobs, and Java sources with
// ShedLock's annotations. What it cannot carry over it names, with its line.
package importer
