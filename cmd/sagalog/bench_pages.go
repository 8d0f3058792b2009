package main

import (
	"time"

	"github.com/sagalog/sagalog/internal/bench"
	"github.com/spf13/cobra"
)

func benchPages() *cobra.Command {
	var c benchConfig
	var p bench.PagesConfig
	cmd := &cobra.Command{
		Use:   "pages",
		Short: "Measure what open pages cost, on an idle system or while tasks run",
		Long: `Measure what open pages cost. Pages that show the overview are open in half of the measured time: each follows the stream and reads what
the overview reads, as often as a browser does. The measured time is divided into four pairs of parts, one with the pages and one
without, at the same rate of tasks. The figures are the CPU without and with the pages, and the difference for one page.

Another process reads the pages. Its CPU is not in the figures: with browsers it is that of other machines. The page itself is served
at --http, so you can open it too.`,
		Example: `  sagalog bench pages --pages 1                             # one page, on a system where nothing happens
  sagalog bench pages --pages 50 --rate 2000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := loopback("--http", p.HTTP); err != nil {
				return err
			}
			return measure(cmd, &c, benchmark[*bench.PagesConfig]{&p, &p.Config, bench.Pages})
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.Pages, "pages", 1, "how many pages are open, 1 to 1000")
	f.Float64Var(&p.Rate, "rate", 0, "how many tasks are due each second (default none: the system is idle)")
	f.StringVar(&p.HTTP, "http", "127.0.0.1:0", "address of the API and the page, on loopback (default a free port)")
	c.windowFlags(f, 3*time.Second, 80*time.Second)
	c.agentFlags(f)
	c.flags(f)
	return cmd
}

// benchReaders opens pages for bench pages.
func benchReaders() *cobra.Command {
	var c bench.ReadersConfig
	cmd := &cobra.Command{
		Use:    "readers",
		Short:  "Open pages until the end of the input: for bench pages, which starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Orders = parent{cmd.InOrStdin()}
			return bench.Readers(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.URL, "url", "", "address of the API")
	f.IntVar(&c.Pages, "pages", 1, "how many pages")
	f.StringVar(&c.Counts, "counts", "", "file for the counts")
	return cmd
}
