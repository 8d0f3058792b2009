package main

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/spf13/pflag"
)

// output is the flag -o of a command that prints a list.
type output struct{ format string }

func (o *output) flags(f *pflag.FlagSet) {
	f.StringVarP(&o.format, "output", "o", "table", "table, json or jsonl")
}

func (o *output) validate() error {
	if formats := []string{"table", "json", "jsonl"}; !slices.Contains(formats, o.format) {
		return usage("-o %q is not known; %s", o.format, events.Suggest(o.format, formats))
	}
	return nil
}

// printRows prints rows as an array, as lines, or as a table for people.
func printRows[T any](w io.Writer, o output, rows []T, table func(io.Writer, []T) error) error {
	switch o.format {
	case "json":
		return json.NewEncoder(w).Encode(rows)
	case "jsonl":
		for _, r := range rows {
			if err := json.NewEncoder(w).Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	return table(w, rows)
}
