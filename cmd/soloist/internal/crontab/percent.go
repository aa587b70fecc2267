package crontab

import "strings"

// splitPercent splits what follows a schedule as cron does: an unescaped % ends the command; in what follows, which is
// the standard input, each further one is a newline; \% is a percent sign in both. An input ends with a newline.
func splitPercent(text string) (command, stdin string, found bool) {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '%':
			part.WriteByte('%')
			i++
		case text[i] == '%':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(text[i])
		}
	}
	parts = append(parts, part.String())
	if len(parts) == 1 {
		return parts[0], "", false
	}
	stdin = strings.Join(parts[1:], "\n")
	if !strings.HasSuffix(stdin, "\n") {
		stdin += "\n"
	}
	return parts[0], stdin, true
}
