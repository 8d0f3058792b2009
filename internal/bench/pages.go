package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// PagesConfig is a run of `sagalog bench pages`.
type PagesConfig struct {
	Config
	// Pages is how many pages are open in half of the measured time.
	Pages int
	// Rate is how many tasks are due each second; 0 is an idle system.
	Rate float64
	// HTTP is the address of the API and the page.
	HTTP string
}

const (
	// maxPages is below the number of streams that a node allows.
	maxPages = 1000
	// pagePairs is the number of pairs of parts, one with pages and one without, that the measured time is divided into. A pair is short, so
	// other load on the machine is often the same in both; its order alternates, so a steady rise of that load cancels out.
	pagePairs = 4
	// settle is the share of a part before it is measured: the pages open or close in it.
	settle = 0.25
)

// Validate reports every fault at once.
func (c *PagesConfig) Validate() error {
	all := faults{c.Config.Validate()}
	all.add(c.Pages < 1 || c.Pages > maxPages, "--pages %d is not from 1 to %d", c.Pages, maxPages)
	all.add(!(c.Rate >= 0) || math.IsInf(c.Rate, 0), "--rate %g is not a number of tasks a second", c.Rate)
	all.add(c.Rate*(c.Warmup+c.Duration).Seconds() > maxTasks, "a run holds %d tasks at most: --rate times --warmup and --duration is more", maxTasks)
	return errors.Join(all...)
}

// part is the CPU that was used in a part of the measured time.
type part struct {
	open  bool
	cores float64
}

// Pages measures what open pages cost: the CPU with and without them, at the same rate of tasks.
func Pages(ctx context.Context, c *PagesConfig) (_ *Result, err error) {
	c.setDefaults()
	b, err := openBench(ctx, &c.Config, c.HTTP)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	fmt.Fprintf(c.Progress, "the page is at http://%s\n", b.node.Addr())
	b.describe(ctx, "pages")
	b.rate = c.Rate
	b.result.Load = fmt.Sprintf("%g tasks/s; open pages that show the overview: 0 and %d in turn", c.Rate, c.Pages)
	v, err := b.startReaders(c.Pages)
	if err != nil {
		return nil, err
	}
	if c.Rate == 0 {
		b.first = func() bool { return true }
	}
	var parts []part
	over, measured := make(chan struct{}), make(chan struct{})
	b.start = func() {
		go func() {
			defer close(measured)
			parts = b.alternate(over, v, c.Duration/(2*pagePairs))
		}()
	}
	end := b.drive(func(stop <-chan struct{}) {
		if c.Rate > 0 {
			b.load.open(b.ctx, stop, c.Rate)
		}
	})
	from, to, err := b.window(ctx, func() bool { return isClosed(measured) })
	close(over)
	end()
	if err != nil {
		return nil, errors.Join(err, v.stop())
	}
	<-measured
	counts, err := v.counts()
	if err != nil {
		return nil, err
	}
	b.fill(from, to)
	b.fillPages(c.Pages, parts, counts)
	b.fillRate(&b.result.Tasks)
	return b.finish(ctx, evidence{ends: c.Rate > 0})
}

// alternate measures pairs of parts until over is closed.
func (b *bench) alternate(over <-chan struct{}, v *viewers, length time.Duration) (parts []part) {
	wait := func(d time.Duration) bool {
		select {
		case <-over:
			return false
		case <-time.After(d):
			return true
		}
	}
	for i := range 2 * pagePairs {
		p := part{open: i%4 == 1 || i%4 == 2}
		v.show(p.open)
		rest := time.Duration(settle * float64(length))
		if !wait(rest) {
			break
		}
		began, cpu := time.Now(), b.meters.cpu()
		if !wait(length - rest) {
			break
		}
		p.cores = (b.meters.cpu() - cpu).Seconds() / time.Since(began).Seconds()
		parts = append(parts, p)
	}
	v.show(false)
	return parts
}

// fillPages computes the figures of the pages.
func (b *bench) fillPages(pages int, parts []part, n PageCounts) {
	r := &b.result
	var without, with, more []float64
	for pair := range slices.Chunk(parts, 2) {
		if len(pair) < 2 {
			break
		}
		x, y := pair[0].cores, pair[1].cores
		if pair[0].open {
			x, y = y, x
		}
		without, with, more = append(without, x), append(with, y), append(more, 1e3*(y-x)/float64(pages))
	}
	r.Pages = pages
	if len(more) > 0 {
		r.CoresWithout, r.CoresWith = round(median(without), 4), round(median(with), 4)
		r.PageCPU, r.PageCPULeast, r.PageCPUMost = round(median(more), 2), round(slices.Min(more), 2), round(slices.Max(more), 2)
	}
	if open := n.Seconds * float64(pages); open > 0 {
		r.PageReads, r.PageEvents, r.PageBytes = round(float64(n.Reads)/open, 2), round(float64(n.Events)/open, 2), round(float64(n.Bytes)/1024/open, 1)
	}
	r.note("a process that this run started reads the pages; its CPU is not in these figures, except as that of others")
	if n.Failed > 0 {
		r.note("%d of %d reads of the pages failed, so the pages cost less than they should; the first: %s", n.Failed, n.Reads, n.First)
	}
}

// median returns the middle of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	m := len(values) / 2
	if len(values)%2 == 1 {
		return values[m]
	}
	return (values[m-1] + values[m]) / 2
}

// viewers is the process that opens the pages. Its CPU is not that of the run.
type viewers struct {
	child  *child
	file   string
	open   bool
	meters meters
}

func (b *bench) startReaders(pages int) (_ *viewers, err error) {
	v := &viewers{file: filepath.Join(b.dir, "pages.json")}
	v.child, err = startChild(&v.meters, b.cfg.Program, b.cfg.Stderr,
		"bench", "readers", "--url", "http://"+b.node.Addr(), "--pages", strconv.Itoa(pages), "--counts", v.file)
	return v, err
}

// show opens or closes the pages. If their process is gone, counts says so.
func (v *viewers) show(open bool) {
	if v.open == open {
		return
	}
	v.open = open
	order := "close\n"
	if open {
		order = "open\n"
	}
	_, _ = io.WriteString(v.child.stdin, order)
}

func (v *viewers) stop() error {
	if err := v.child.stop(); err != nil {
		return fmt.Errorf("the process that reads the pages: %w", err)
	}
	return nil
}

// counts ends the process and returns its counts.
func (v *viewers) counts() (n PageCounts, err error) {
	if err := v.stop(); err != nil {
		return n, err
	}
	text, err := os.ReadFile(v.file)
	if err != nil {
		return n, fmt.Errorf("read the counts of the pages: %w", err)
	}
	return n, json.Unmarshal(text, &n)
}
