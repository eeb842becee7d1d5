// Mutate breaks decision code at random and says what no test noticed:
//
//	go run ./examples/mutate -n 100 -seed 7
//
// It draws from all mutants of the sources in scope.go, of the same seed and
// sources always the same ones, and runs on each the tests of the package that come by
// it, without the race detector and with -short. The tests of a package are compiled once for all
// of its mutants. One that does not compile is drawn anew. What survives is printed
// as it is found: either a test is missing, or a line that
// changes nothing can go, or the mutant does the same by another way. What ran into
// a limit of time is printed, too: it may be the mutant, or a busy machine. A folder
// that does not build, or whose tests fail without a mutant, is named and passed over.
// The repository is not written to. Folders and sources as arguments are drawn from
// instead:
//
//	go run ./examples/mutate -n 20 ./status ./syncloop/order.go
//
// # Flags
//
//	-n N          how many mutants to try; 0 is all of them (100)
//	-seed N       which ones (1)
//	-parallel N   how many at a time (2)
//	-timeout D    how long the tests of a package may take, and not much longer than without a mutant (3m)
//	-run REGEXP   only these tests
//	-again FILE   try those that FILE names: the output of an earlier run, which names what survived and what took too long,
//	              or lines like status/phase.go:31 and status/phase.go:31:negate
//	-v            print also what was noticed
//	-list         print the mutants, try none
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	n, parallel int
	seed        uint64
	timeout     time.Duration
	run, again  string
	verbose     bool
	list        bool
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 100, "how many mutants to try; 0 is all")
	flag.Uint64Var(&o.seed, "seed", 1, "which mutants")
	flag.IntVar(&o.parallel, "parallel", 2, "how many at a time")
	flag.DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long the tests of a package may take")
	flag.StringVar(&o.run, "run", "", "only these tests")
	flag.StringVar(&o.again, "again", "", "try what this file names")
	flag.BoolVar(&o.verbose, "v", false, "print also what was noticed")
	flag.BoolVar(&o.list, "list", false, "print the mutants, try none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := mutate(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}
