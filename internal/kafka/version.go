package kafka

import "runtime/debug"

// module is the path of this module.
const module = "github.com/sagalog/sagalog"

// Version returns the version of this module in the program that runs, for the line that a program logs when it has connected: "devel" for a build
// from a checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	v := info.Main.Version
	if info.Main.Path != module {
		v = ""
		for _, d := range info.Deps {
			if d.Path == module {
				v = d.Version
			}
		}
	}
	if v == "" || v == "(devel)" {
		return "devel"
	}
	return v
}
