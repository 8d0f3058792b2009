package api

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// atEnd is the cursor of a partition whose tasks have all been listed.
	atEnd = "."
	// cursorPart separates the parts of a cursor. Like the digits and the points between them, it needs no escape in a URL.
	cursorPart = "~"
)

// walk is the cursor where each partition continues; "" is its newest task. While no partition is missing, all continue at the
// same cursor, which then is the cursor of the walk. A partition that was missing stays where it was:
//
//	CURSOR~1.3~CURSOR~5~CURSOR
//
// holds the cursor of all other partitions, then that of 1 and 3, then that of 5.
type walk []string

// walkAt returns the walk of a cursor.
func (s *lists) walkAt(cursor string) (walk, error) {
	bad := parameterProblem("cursor", "is not a cursor of this list")
	parts := strings.Split(cursor, cursorPart)
	if len(parts)%2 == 0 || len(parts) > 2*int(s.partitions) {
		return nil, bad
	}
	w := make(walk, s.partitions)
	for p := range w {
		w[p] = parts[0]
	}
	for i := 1; i < len(parts); i += 2 {
		for text := range strings.SplitSeq(parts[i], ".") {
			p, err := strconv.Atoi(text)
			if err != nil || p < 0 || p >= len(w) {
				return nil, bad
			}
			w[p] = parts[i+1]
		}
	}
	groups := w.groups()
	if _, over := groups[atEnd]; over && len(groups) == 1 {
		return nil, bad
	}
	for cursor := range groups {
		if _, err := s.place(cursor); err != nil {
			return nil, bad
		}
	}
	return w, nil
}

// groups returns the partitions that continue at each cursor.
func (w walk) groups() map[string][]int32 {
	groups := map[string][]int32{}
	for p, cursor := range w {
		groups[cursor] = append(groups[cursor], int32(p))
	}
	return groups
}

// place returns the place of a partition's cursor. The place of the beginning sorts before all others, that of the end after
// them.
func (s *lists) place(cursor string) (string, error) {
	switch cursor {
	case "":
		return "", nil
	case atEnd:
		return "\xff", nil
	}
	place, err := s.list.Place(cursor)
	return "p" + place, err
}

// advance moves the partitions that were read to the end of the page, except those that are already past it.
func (s *lists) advance(w walk, read []int32, end string) error {
	if end == "" {
		end = atEnd
	}
	to, err := s.place(end)
	if err != nil {
		return err
	}
	for _, p := range read {
		from, err := s.place(w[p])
		if err != nil {
			return err
		}
		if from < to {
			w[p] = end
		}
	}
	return nil
}

// next returns the cursor of the walk, "" at its end. The farthest cursor comes first: it is where most partitions are.
func (s *lists) next(w walk) (string, error) {
	groups := w.groups()
	farthest, most := "", ""
	for cursor := range groups {
		place, err := s.place(cursor)
		if err != nil {
			return "", err
		}
		if place >= most {
			farthest, most = cursor, place
		}
	}
	if len(groups) == 1 && farthest == atEnd {
		return "", nil
	}
	parts := []string{farthest}
	delete(groups, farthest)
	for _, cursor := range slices.Sorted(maps.Keys(groups)) {
		numbers := make([]string, len(groups[cursor]))
		for i, p := range groups[cursor] {
			numbers[i] = strconv.Itoa(int(p))
		}
		parts = append(parts, strings.Join(numbers, "."), cursor)
	}
	return strings.Join(parts, cursorPart), nil
}
