package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress is the progress bar of a bulk submission. If stderr is not a terminal it prints only messages.
type progress struct {
	out  io.Writer
	bars *mpb.Progress
	bar  *mpb.Bar
	// waitingFor is the last message about waiting, so that it is printed once.
	waitingFor string
}

// newProgress shows a bar for size bytes; 0 means unknown.
func newProgress(out io.Writer, size int64) *progress {
	p := &progress{out: out}
	if !IsTerminal(out) {
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

// newCount shows a bar for a number of things, which set says.
func newCount(out io.Writer, what string) *progress {
	p := &progress{out: out}
	if !IsTerminal(out) {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(40))
	p.out = p.bars
	p.bar = p.bars.AddBar(0, mpb.PrependDecorators(decor.Name(what+" "), decor.CountersNoUnit("%d / %d")),
		mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageETA(decor.ET_STYLE_GO)))
	return p
}

// set says how many of all things are done.
func (p *progress) set(n, of int) {
	if p.bar != nil {
		p.bar.SetTotal(int64(max(n, of, 1)), false)
		p.bar.SetCurrent(int64(n))
	}
}

// isTerminal reports whether a person can answer.
func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	none, _ := os.Stat(os.DevNull)
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && !os.SameFile(info, none)
}

// IsTerminal reports whether a person is watching. A dumb terminal cannot move its cursor.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) add(n int) {
	p.waitingFor = ""
	if p.bar != nil {
		p.bar.IncrBy(n)
	}
}

// print prints a message above the bar.
func (p *progress) print(text string) { fmt.Fprintln(p.out, text) }

// waiting prints once why there is no progress.
func (p *progress) waiting(err error) {
	if text := err.Error(); p.waitingFor == "" {
		p.waitingFor = text
		p.print("trying again: " + text)
	}
}

// done fills the bar, because blank lines at the end do not belong to any submission.
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
