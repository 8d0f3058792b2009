package archtest

import (
	"testing"
)

// rules are all rules, by the name of their test.
var rules = map[string]rule{
	"imports form a star around events":              theStar,
	"the Kafka client and Pebble have one home":      theHomes,
	"testing stays out of programs":                  theTesting,
	"pure code depends on its arguments only":        thePure,
	"math/rand is not used":                          theDice,
	"rules are switched off by sim and tests only":   theSwitches,
	"files and functions have a ceiling":             theSizes,
	"every package says what it is for":              theDocs,
	"exported constants have explicit values":        theIota,
	"a type has few enough methods to know them all": theMethods,
	"an interface is what its caller calls":          theInterfaces,
	"the name of a test fits a line":                 theTestNames,
	"a test in the bubble has a name that is run":    theBubble,
	"a file is named after its idea":                 theFiles,
	"comments and texts use the common words":        theComments,
}

// prose are rules about text.
var prose = map[string]func([]page) []violation{
	"nothing cites what is not in the repository": theOutside,
	"documents use the common words":              theProse,
}

func TestCode(t *testing.T) {
	t.Parallel()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(tree) < 100 {
		t.Fatalf("only %d Go files found below %s: the rules would check nothing", len(tree), dir)
	}
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v := range byPlace(r(tree)) {
				t.Error(v)
			}
		})
	}
	pages, err := loadPages(dir)
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]func() []violation{
		"everything that is cited exists": func() []violation { return newLibrary(tree, pages).theCites(tree, pages) },
	}
	for name, r := range prose {
		checks[name] = func() []violation { return r(pages) }
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v := range byPlace(check()) {
				t.Error(v)
			}
		})
	}
}
