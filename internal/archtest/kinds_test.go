package archtest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// knower is a place in the code that has to know each kind of fact.
type knower struct {
	name string
	// files match the place's files, as path.Match says.
	files string
	// mention matches the text in a file that handles a kind. KIND stands for the kind's name.
	mention string
	// not holds the kinds that the place may ignore, with the reason.
	not map[string]string
}

// knowers are the places that a new kind of fact affects. The parts of an owner are checked in package supervisor. The
// histories of the API and of the command line are not included: they show a fact's name and members, whatever its
// kind.
var knowers = []knower{
	{name: "the codec (go generate ./events)", files: "events/*_gen.go", mention: `func \(v \*KIND\) read\(`},
	{name: "the format", files: "events/FORMAT.md", mention: "(?s)\n### KIND\n.*\n```json KIND\n"},
	{name: "the fold", files: "events/apply*.go", mention: `\*KIND\b`, not: map[string]string{
		"NamespaceCreated": "it is the first record of the definitions and never in a partition of events",
	}},
	{name: "the fold in another language", files: "events/testdata/fold.py", mention: `"KIND"|\bdef KIND\(`, not: map[string]string{
		"NamespaceCreated": "it is the first record of the definitions and never in a partition of events",
	}},
	{name: "the checker", files: "internal/verify/*.go", mention: `\bevents\.(Name)?KIND\b`},
	{name: "the simulator's judge", files: "internal/sim/*.go", mention: `\bevents\.(Name)?KIND\b`},
}

// kindsOf returns the kinds of facts that this version writes and reads: go generate gives each a method Name.
func kindsOf(pages []page) []string {
	var kinds []string
	for _, p := range pages {
		if p.path != "events/fact_gen.go" {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^func \(\*(\w+)\) Name\(\) Name`).FindAllStringSubmatch(p.text, -1) {
			kinds = append(kinds, m[1])
		}
	}
	return kinds
}

// knows returns the kinds that a place does not mention, and the kinds that it mentions although its list says that it
// ignores them.
func (k *knower) knows(pages []page, kinds []string) []violation {
	var found []violation
	for _, kind := range kinds {
		mention := regexp.MustCompile(strings.ReplaceAll(k.mention, "KIND", kind))
		known := slices.ContainsFunc(pages, func(p page) bool {
			ours, _ := path.Match(k.files, p.path)
			return ours && !strings.HasSuffix(p.path, "_test.go") && mention.MatchString(p.text)
		})
		switch _, exempt := k.not[kind]; {
		case !known && !exempt:
			found = append(found, violation{k.files, 1, fmt.Sprintf("%s does not know %s: handle it there, or name it in archtest's knowers with the reason why not", k.name, kind), kind})
		case known && exempt:
			found = append(found, violation{k.files, 1, fmt.Sprintf("%s knows %s, which archtest's knowers say it does not: remove it there", k.name, kind), kind})
		}
	}
	return found
}

// TestEachPlaceKnowsEachKindOfFact checks all the places that a new kind of fact affects.
func TestEachPlaceKnowsEachKindOfFact(t *testing.T) {
	t.Parallel()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := loadPages(dir)
	if err != nil {
		t.Fatal(err)
	}
	kinds := kindsOf(pages)
	if len(kinds) < 20 {
		t.Fatalf("only %d kinds of facts found in events/fact_gen.go", len(kinds))
	}
	for _, k := range knowers {
		for _, v := range k.knows(pages, kinds) {
			t.Error(v)
		}
		for kind := range k.not {
			if !slices.Contains(kinds, kind) {
				t.Errorf("%s names %s, which is not a kind of fact", k.name, kind)
			}
		}
		if n := len(k.knows(pages, []string{"StepRepeated"})); n != 1 {
			t.Errorf("%s: the check does not notice that a new kind of fact is missing there", k.name)
		}
	}
}
