// Package crontab reads files of jobs, in the dialect of crontab(5) or in YAML, into one model.
//
// Its one idea: a file means the same on every replica. Names of jobs are given or follow from what a line says, never
// from where it stands; times are in UTC or in a named zone, never in that of the machine; and what can't be meant the
// same everywhere is an error that says what would be right.
//
// # Crontab
//
// A line is blank, a comment that begins with #, a variable, or a job. There is no continuation of lines, and what
// stands after a job is never a comment.
//
// A variable is NAME = value, and holds for the jobs below it. Matching quotes around the value are removed, blanks
// around it too; nothing is expanded. SHELL is the program that runs the lines (/bin/sh). TZ is the zone of the
// schedules and is passed on, CRON_TZ is the zone of the schedules alone and outranks TZ, above or below it; an empty
// CRON_TZ gives the schedules back to TZ. The variables
// of mail are ignored with a warning, since no mail is sent.
//
// A job is a schedule and a command. The schedule is a name such as @daily, "@every 10m", or the leading words that are
// made of what fields are made of (digits, * ? / , - # ~, names of months and weekdays, L and W with them), at most
// seven and leaving one for the command. Five are those of cron, six have the second in front, seven the year behind. A
// command that looks like a field itself is refused; write ./5 or its full path. The dialects of others differ for six
// fields: supercronic reads the last of them as a year. Where both readings make sense there is a warning.
//
// The first % in a command ends it, and what follows is its standard input, where each further % is a newline; \% is a
// percent sign. That is so in cron, and not in supercronic: [Options.LiteralPercent].
//
// Comments directly above a job set its name and options, one or several of them, in any order among other comments:
//
//	# name: nightly-report
//	# soloist: at-least=1m at-most=10m missed=once
//	0 3 * * * ./report
//
// The keys are name, zone, dir, ttl, at-least, at-most, jitter, missed, missed-cap, grace, crash, nice, attempts,
// backoff and max-backoff, with the meaning they have in YAML; a value has no blanks, but for the line "# name:".
//
// A job without a name is called after its command, with a hash of what is run, when and with which variables:
// "report-1f3a9c2e". Moving the line changes nothing; changing it makes it another job. Two jobs of one name are
// refused.
//
// # YAML
//
//	defaults: {zone: Europe/Berlin, ttl: 30s}    # every key of a job but name, schedule and command
//	jobs:
//	  - name: publish-news                       # always
//	    schedule: "0/30 * * * * ?"               # or every: 30s, delay: 10s (after the end of a run), at: 2026-12-31T23:59:00Z
//	    zone: Europe/Berlin
//	    command: ["./publish", "--fast"]         # the program and its arguments; or shell: a line for /bin/sh
//	    stdin: text
//	    env: {A: b}
//	    dir: /srv
//	    ttl: 30s
//	    at-least: 1m                             # how long the job's name stays taken, at least
//	    at-most: 5m                              # how long a run may take
//	    jitter: 5s
//	    missed: skip                             # or once, or all
//	    missed-cap: 100                          # for all
//	    grace: 1m                                # how late is not missed
//	    crash: take-over                         # or give-up
//	    nice: 10                                 # by how much it yields to other processes
//	    retry: {attempts: 3, backoff: 1s, max-backoff: 1m}
//
// Keys are known or an error; keys that begin with x- on the first level hold anchors.
package crontab
