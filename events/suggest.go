package events

import "strings"

// Suggest returns "did you mean "x"?" for the nearest of known, and the list of known names if none is near.
func Suggest(name string, known []string) string {
	if n := Nearest(name, known); n != "" {
		return "did you mean \"" + n + "\"?"
	}
	return "known are " + strings.Join(known, ", ")
}

// Nearest returns the known name with the smallest edit distance, or "" if even that is too far for a typo.
func Nearest(name string, known []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the least number of letters to delete, insert, replace, or swap with the next one (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
