package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// page is one file of the repository as text.
type page struct{ path, text string }

// lineAt returns the line of the byte at offset.
func (p page) lineAt(offset int) int { return 1 + strings.Count(p.text[:offset], "\n") }

// find makes a violation of each match.
func (p page) find(pattern *regexp.Regexp, text string) []violation {
	var found []violation
	for _, at := range pattern.FindAllStringIndex(p.text, -1) {
		found = append(found, violation{p.path, p.lineAt(at[0]), strings.ReplaceAll(text, "%", p.text[at[0]:at[1]]), p.path})
	}
	return found
}

// outside matches citations of documents and lists that a reader of this repository does not have.
var outside = regexp.MustCompile(`\b(DESIGN|MISSION|INTERFACE|SURFACES|NEXT|STYLE)\b( \d+)?|\breading/[a-z-]+|\btraces\.md|\btraces, [a-z]\d|` +
	`\b[A-F]m\d\b|\b[Ii]ssue \d+|\bitem \d+ of the|\([A-H]\d{1,2}(, [A-H]\d{1,2})*\)|\bTest\w*[FC]\d+[A-Z]\w*`)

// outsideExceptions are files that contain such a word for another reason.
var outsideExceptions = map[string]string{
	"internal/archtest/words_test.go": "the pattern itself",
	"internal/archtest/red_test.go":   "shows that the pattern finds something",
}

// theOutside: nothing cites what is not in the repository. A reader of the code has nothing else.
func theOutside(pages []page) []violation {
	var found []violation
	for _, p := range pages {
		found = append(found, p.find(outside, `"%" names something outside of the repository: give the reason itself, or cite docs/protocol.md by a heading`)...)
	}
	return except(found, outsideExceptions)
}

// stumbles are words at which a native reader stumbles.
var stumbles = regexp.MustCompile(`(?i)\b(told|anew|mend(s|ed)?|for\s+ever|of\s+its\s+own|so\s+many|is\s+none)\b`)

var stumbleExceptions = map[string]string{
	"internal/archtest/words_test.go": "the pattern itself",
	"internal/archtest/red_test.go":   "shows that the pattern finds something",
}

// theProse: documents use common words.
func theProse(pages []page) []violation {
	var found []violation
	for _, p := range pages {
		if strings.HasSuffix(p.path, ".md") {
			found = append(found, p.find(stumbles, `"%": say it in the common word`)...)
		}
	}
	return found
}

// theComments: comments, and texts that a program prints, use common words too.
func theComments(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		note := func(at token.Pos, text string) {
			p := page{s.path, text}
			for _, v := range p.find(stumbles, `"%": say it in the common word`) {
				v.line += s.line(at) - 1
				found = append(found, v)
			}
		}
		for _, g := range s.file.Comments {
			// A sentence may span several lines, and so may some of the phrases.
			var b strings.Builder
			for _, c := range g.List {
				b.WriteString("\n" + strings.TrimPrefix(c.Text, "//"))
			}
			note(g.Pos(), strings.TrimPrefix(b.String(), "\n"))
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				note(lit.Pos(), lit.Value)
			}
			return true
		})
	}
	return except(found, stumbleExceptions)
}

// vague matches file names that do not describe the contents, or that do not use the usual technical word.
var vague = strings.Fields(`util utils common helper helpers misc types fill follow tail pace lane intake done proof promise passage express
	spool window accept gather turn again floor voice carry`)

// theFiles: a file is named after its one idea, by the usual technical word.
func theFiles(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test")
		for part := range strings.SplitSeq(stem, "_") {
			if slices.Contains(vague, part) {
				found = append(found, violation{s.path, 1, `"` + part + `" names no idea that a stranger would look for`, s.path})
			}
		}
	}
	return found
}
