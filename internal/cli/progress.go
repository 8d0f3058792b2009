package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress is the bar of a bulk submission. Where stderr is not a terminal it only prints what must be said.
type progress struct {
	out  io.Writer
	bars *mpb.Progress
	bar  *mpb.Bar
	// told is what was last said of waiting, so that it is said once.
	told string
}

// newProgress shows a bar for size bytes; 0 is unknown.
func newProgress(out io.Writer, size int64) *progress {
	p := &progress{out: out}
	if !isTerminal(out) {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(40))
	p.out = p.bars
	if size > 0 {
		p.bar = p.bars.AddBar(size,
			mpb.PrependDecorators(decor.Name("submitting "), decor.CountersKibiByte("% .1f / % .1f")),
			mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageETA(decor.ET_STYLE_GO)))
		return p
	}
	p.bar = p.bars.AddSpinner(0, mpb.PrependDecorators(decor.Name("submitting "), decor.CurrentKibiByte("% .1f")))
	return p
}

// isTerminal says whether a person sits there. TERM=dumb cannot move its cursor.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) add(n int) {
	p.told = ""
	if p.bar != nil {
		p.bar.IncrBy(n)
	}
}

// print says something above the bar.
func (p *progress) print(text string) { fmt.Fprintln(p.out, text) }

// waiting says once why nothing moves.
func (p *progress) waiting(err error) {
	if text := err.Error(); p.told == "" {
		p.told = text
		p.print("trying again: " + text)
	}
}

// done fills the bar: blank lines are nobody's.
func (p *progress) done() {
	if p.bar == nil {
		return
	}
	p.bar.SetTotal(-1, true)
	p.bars.Wait()
	p.bar = nil
}

func (p *progress) abort() {
	if p.bar == nil {
		return
	}
	p.bar.Abort(false)
	p.bars.Wait()
	p.bar = nil
}
