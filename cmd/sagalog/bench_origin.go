package main

import (
	"strings"

	"github.com/sagalog/sagalog/internal/bench"
	"github.com/spf13/pflag"
)

// secret is the flag whose value no report shows.
const secret = "sasl-password"

// originOf describes this program and the flags that it was called with.
func originOf(f *pflag.FlagSet) bench.Origin {
	o := bench.Origin{Version: version(), Commit: commit(), Modified: modified()}
	f.Visit(func(x *pflag.Flag) {
		value := x.Value.String()
		if x.Name == secret {
			value = "..."
		}
		if list, ok := x.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		o.Flags = append(o.Flags, "--"+x.Name+"="+value)
	})
	return o
}
