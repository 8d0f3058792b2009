package archtest

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// library holds everything that can be cited: the files of the repository, the headings of its documents, and its
// tests.
type library struct {
	files map[string]bool
	// bases are the folders that contain a file of this name.
	bases map[string][]string
	// heads are the headings of each document.
	heads map[string][]string
	tests map[string]bool
	// scenarios is the text that contains the names of the model's scenarios and mutants and of the rules' tests.
	scenarios string
}

var heading = regexp.MustCompile("(?m)^#+ (.+)$")

func newLibrary(tree []*source, pages []page) *library {
	l := &library{files: map[string]bool{}, bases: map[string][]string{}, heads: map[string][]string{}, tests: map[string]bool{}}
	for _, p := range pages {
		l.files[p.path] = true
		l.bases[path.Base(p.path)] = append(l.bases[path.Base(p.path)], path.Dir(p.path))
		if strings.HasSuffix(p.path, ".md") {
			for _, m := range heading.FindAllStringSubmatch(p.text, -1) {
				l.heads[p.path] = append(l.heads[p.path], strings.TrimSpace(m[1]))
			}
		}
		if strings.HasPrefix(p.path, "internal/sim/") && strings.HasSuffix(p.path, ".go") || strings.Contains(p.text, "//mutant:") {
			l.scenarios += p.text
		}
	}
	for _, s := range tree {
		if !s.test() {
			continue
		}
		for _, name := range functions(s) {
			if isTest(name) {
				l.tests[name] = true
			}
		}
	}
	return l
}

var (
	citedFile = regexp.MustCompile(`(?:[\w.-]+/)*[\w-]+\.(?:go|md|py|sh)\b`)
	citedHead = regexp.MustCompile(`\b(README|ARCHITECTURE|BENCHMARKS|FORMAT|protocol)(?:\.md)?,?\s+"([^"]+)"`)
	citedTest = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	linked    = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	scenario  = regexp.MustCompile(`(?s)\b(?:Scenarios?|Rule|Mutants?):\s+(.*?)\.(?:\s|$)`)
	quoted    = regexp.MustCompile(`"([^"]+)"`)
	blanks    = regexp.MustCompile(`\s+`)
)

// documents maps the short names of documents to their files.
var documents = map[string]string{
	"README": "README.md", "ARCHITECTURE": "ARCHITECTURE.md", "BENCHMARKS": "BENCHMARKS.md", "FORMAT": "events/FORMAT.md", "protocol": "docs/protocol.md",
}

// cites checks the citations in a text of the file `from`. The text begins at the given line of that file.
func (l *library) cites(from, text string, line int) []violation {
	var found []violation
	wrong := func(at int, what string) {
		found = append(found, violation{from, line + strings.Count(text[:at], "\n"), what, from})
	}
	for _, at := range citedFile.FindAllStringIndex(text, -1) {
		name := text[at[0]:at[1]]
		if at[0] > 0 && strings.ContainsAny(text[at[0]-1:at[0]], `/*<>_$:"-`) || at[1] < len(text) && strings.ContainsAny(text[at[1]:at[1]+1], "/(@") {
			continue // a URL, a pattern, a method
		}
		if !l.hasFile(from, name) {
			wrong(at[0], "there is no file "+name)
		}
	}
	for _, at := range citedHead.FindAllStringSubmatchIndex(text, -1) {
		doc, head := documents[text[at[2]:at[3]]], blanks.ReplaceAllString(text[at[4]:at[5]], " ")
		if !slices.Contains(l.heads[doc], head) {
			wrong(at[0], doc+` has no heading "`+head+`"`)
		}
	}
	for _, at := range citedTest.FindAllStringIndex(text, -1) {
		name := text[at[0]:at[1]]
		if l.tests[name] || strings.HasPrefix(text[at[1]:], "…") && l.hasTest(name) || l.hasTest(name) && inRun(text, at[0]) {
			continue
		}
		wrong(at[0], "there is no test "+name)
	}
	return found
}

// hasFile says whether name is a file when the file `from` cites it: by its path from the root or from the citing
// file, or by a name that occurs in only one folder.
func (l *library) hasFile(from, name string) bool {
	return l.files[name] || l.files[path.Join(path.Dir(from), name)] || !strings.Contains(name, "/") && (strings.HasSuffix(from, ".md") || strings.HasSuffix(name, ".md")) && len(l.bases[name]) > 0 ||
		slices.ContainsFunc(l.bases[path.Base(name)], func(dir string) bool {
			return strings.Contains(name, "/") && strings.HasSuffix("/"+dir+"/"+path.Base(name), "/"+name)
		})
}

func (l *library) hasTest(prefix string) bool {
	for name := range l.tests {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// inRun says whether the place is inside the pattern of a command, where the beginning of a name is enough.
func inRun(text string, at int) bool {
	line := text[strings.LastIndexByte(text[:at], '\n')+1 : at]
	return strings.Contains(line, "-run") || strings.Contains(line, "-fuzz") || strings.Contains(line, "-bench")
}

// links checks the links of a document to other files and to headings.
func (l *library) links(p page) []violation {
	var found []violation
	for _, at := range linked.FindAllStringSubmatchIndex(p.text, -1) {
		to := p.text[at[2]:at[3]]
		if strings.Contains(to, ":") {
			continue
		}
		file, head, anchored := strings.Cut(to, "#")
		if file = path.Join(path.Dir(p.path), file); strings.HasPrefix(to, "#") {
			file = p.path
		}
		folder := func(name string) bool { return strings.HasPrefix(name, file+"/") }
		switch {
		case !l.files[file] && !slices.ContainsFunc(keys(l.files), folder):
			found = append(found, violation{p.path, p.lineAt(at[0]), "the link goes to " + to + ", which does not exist", p.path})
		case anchored && !slices.ContainsFunc(l.heads[file], func(h string) bool { return anchor(h) == head }):
			found = append(found, violation{p.path, p.lineAt(at[0]), "the link goes to " + to + ", and there is no such heading", p.path})
		}
	}
	return found
}

func keys(m map[string]bool) []string {
	all := make([]string, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	return all
}

// anchor returns the anchor that GitHub makes from a heading.
func anchor(head string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(head) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		}
	}
	return b.String()
}

// shown checks that every scenario, rule and mutant that a document names can be run.
func (l *library) shown(p page) []violation {
	var found []violation
	for _, at := range scenario.FindAllStringSubmatchIndex(p.text, -1) {
		for _, m := range quoted.FindAllStringSubmatch(p.text[at[2]:at[3]], -1) {
			if name := blanks.ReplaceAllString(m[1], " "); !strings.Contains(l.scenarios, name) {
				found = append(found, violation{p.path, p.lineAt(at[2]), `internal/sim has nothing named "` + name + `"`, p.path})
			}
		}
	}
	return found
}

// theCites: everything that a comment or a document cites exists.
func (l *library) theCites(tree []*source, pages []page) []violation {
	var found []violation
	for _, s := range tree {
		for _, g := range s.file.Comments {
			var b strings.Builder
			for _, c := range g.List {
				b.WriteString("\n" + strings.TrimPrefix(c.Text, "//"))
			}
			found = append(found, l.cites(s.path, b.String()[1:], s.line(g.Pos()))...)
		}
	}
	for _, p := range pages {
		if strings.HasSuffix(p.path, ".md") || p.path == "llms.txt" {
			found = append(found, l.cites(p.path, p.text, 1)...)
			found = append(found, l.links(p)...)
			found = append(found, l.shown(p)...)
		}
	}
	return found
}
