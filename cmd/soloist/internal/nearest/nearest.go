// Package nearest finds the name that was probably meant.
package nearest

// Of returns the known name that is least unlike what was given; it is "" if none is alike.
func Of(given string, known []string) string {
	best, least := "", 3
	for _, name := range known {
		if d := Distance(given, name); d < least && d < len(name) {
			best, least = name, d
		}
	}
	return best
}

// Distance is how many bytes have to be put in, taken out, replaced or exchanged with the next to make b of a.
func Distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
