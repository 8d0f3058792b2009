package main

import "runtime/debug"

// The linker sets these where Go cannot: a build of an image has the sources without their repository. A release sets them too, as in
// -ldflags "-X main.release=v1.2.3 -X main.revision=COMMIT".
var release, revision string

// version returns the version of the release, or that of the module, which names the commit of a build from a checkout.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// commit returns the commit that the program was built from, "" if it does not know.
func commit() string {
	if revision != "" {
		return revision
	}
	return buildSetting("vcs.revision")
}

// modified says whether files of the checkout differed from the commit.
func modified() bool { return buildSetting("vcs.modified") == "true" }

// buildSetting returns what Go noted about the build under this key.
func buildSetting(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}
