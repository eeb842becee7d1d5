package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	mutants "github.com/podwright/podwright/internal/mutate"
)

// candidate is a mutant and where it is.
type candidate struct {
	file   string
	source []byte
	mutants.Mutant
}

func (c candidate) String() string {
	return fmt.Sprintf("%s:%d: %s", c.file, c.Line, c.Mutant)
}

// named returns the candidates that a list names, each on a line of its own: as
// this program prints those that survived or took too long, or as file:line or
// file:line:operator. What is printed in full may stand in another line now; then all
// that look the same are meant.
func named(all []candidate, list string) []candidate {
	var out []candidate
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		for _, word := range []string{survived, expired} {
			line = strings.TrimSpace(strings.TrimPrefix(line, word))
		}
		found := having(all, func(c candidate) bool {
			place := fmt.Sprintf("%s:%d", c.file, c.Line)
			return line == c.String() || line == place || line == place+":"+c.Operator
		})
		if len(found) == 0 {
			found = having(all, func(c candidate) bool {
				return strings.HasPrefix(line, c.file+":") && strings.HasSuffix(line, ": "+c.Mutant.String())
			})
		}
		out = append(out, having(found, func(c candidate) bool { return !slices.ContainsFunc(out, c.is) })...)
	}
	return out
}

func having(all []candidate, is func(candidate) bool) []candidate {
	var out []candidate
	for _, c := range all {
		if is(c) {
			out = append(out, c)
		}
	}
	return out
}

func (c candidate) is(d candidate) bool { return c.file == d.file && c.Mutant == d.Mutant }

// mutate draws from all mutants and tries them.
func mutate(ctx context.Context, o options, names []string) error {
	if len(names) == 0 {
		names = decisionCode
	}
	all, err := candidates(names)
	if err != nil {
		return err
	}
	rand.New(rand.NewPCG(o.seed, o.seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if o.again != "" {
		earlier, err := os.ReadFile(o.again)
		if err != nil {
			return err
		}
		if all = named(all, string(earlier)); len(all) == 0 {
			return fmt.Errorf("%s names no mutant of these sources", o.again)
		}
		o.n = len(all)
	}
	fmt.Printf("%d mutants, seed %d\n", len(all), o.seed)
	if o.n == 0 {
		o.n = len(all)
	}
	if o.list {
		for _, c := range all[:min(o.n, len(all))] {
			fmt.Println(c)
		}
		return nil
	}
	t := trials{options: o, queue: all, figures: map[string]*figure{}, unhealthy: map[string]error{}}
	err = t.work(ctx)
	t.print()
	return errors.Join(err, t.sick())
}

func candidates(names []string) ([]candidate, error) {
	files, err := sources(names)
	if err != nil {
		return nil, err
	}
	var all []candidate
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := mutants.Of(source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, m := range found {
			all = append(all, candidate{file: file, source: source, Mutant: m})
		}
	}
	return all, nil
}

// The words before a mutant that nothing noticed, or only a limit of time.
const survived, expired = "SURVIVED", "EXPIRED"

// figure counts the mutants of a package by what came of them.
type figure [mutants.Expired + 1]int

func (f *figure) String() string {
	return fmt.Sprintf("%d survived of %d; %d noticed by tests, %d by a limit of time",
		f[mutants.Survived], f[mutants.Survived]+f[mutants.Failed]+f[mutants.Expired], f[mutants.Failed], f[mutants.Expired])
}

// trials is the work that several goroutines share. Under the mutex: what is still
// to be tried, how many are or were, and what came of them.
type trials struct {
	options
	mu        sync.Mutex
	queue     []candidate
	begun     int
	figures   map[string]*figure
	unhealthy map[string]error // what the tests of folders say without a mutant
	unbroken  sync.Map         // folder to a func that runs its tests without a mutant, once
}

// next takes one from the queue, unless enough were taken.
func (t *trials) next() (candidate, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun == t.n || len(t.queue) == 0 {
		return candidate{}, false
	}
	c := t.queue[0]
	t.queue = t.queue[1:]
	t.begun++
	return c, true
}

func (t *trials) work(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range t.parallel {
		group.Go(func() error {
			dir, err := os.MkdirTemp("", "mutate-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			for {
				c, ok := t.next()
				if !ok {
					return nil
				}
				if err := t.try(ctx, dir, c); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// try runs the tests of the folder of c on it, and then those that show the same.
func (t *trials) try(ctx context.Context, dir string, c candidate) error {
	folder, begun := filepath.Dir(c.file), time.Now()
	outcome, out := mutants.Survived, ""
	for _, tested := range append([]string{folder}, alsoTestedBy[folder]...) {
		if outcome != mutants.Survived {
			break
		}
		trial := mutants.Trial{Package: tested, Dir: dir, Run: t.run, Timeout: t.timeout}
		if err := t.healthy(ctx, trial); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			t.untested(tested, err)
			return nil
		}
		trial.File, trial.Source = c.file, c.Apply(c.source)
		var err error
		outcome, out, err = trial.Test(ctx)
		if errors.Is(err, mutants.ErrBuild) {
			t.drawAnew()
			return nil
		}
		if err != nil {
			return err
		}
	}
	t.count(folder, outcome)
	switch {
	case outcome == mutants.Survived:
		fmt.Println(survived, c)
	case outcome == mutants.Expired:
		fmt.Println(expired, c)
	case t.verbose:
		fmt.Printf("noticed  %s (%.1fs)\n%.300s\n", c, time.Since(begun).Seconds(), out)
	}
	return nil
}

// healthy runs the tests without a mutant, once.
func (t *trials) healthy(ctx context.Context, trial mutants.Trial) error {
	once, _ := t.unbroken.LoadOrStore(trial.Package, sync.OnceValue(func() error {
		outcome, out, err := trial.Test(ctx)
		if err == nil && outcome != mutants.Survived {
			err = fmt.Errorf("the tests of %s fail without a mutant:\n%s", trial.Package, out)
		}
		return err
	}))
	return once.(func() error)()
}

// untested notes a folder whose tests cannot say anything, and draws another mutant.
func (t *trials) untested(folder string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unhealthy[folder] == nil {
		fmt.Printf("UNTESTED %s: %v\n", folder, err)
	}
	t.unhealthy[folder] = err
	t.begun--
}

// sick names the folders of which nothing was tried.
func (t *trials) sick() error {
	if len(t.unhealthy) == 0 {
		return nil
	}
	return fmt.Errorf("not tried, since they do not build or fail without a mutant: %s", strings.Join(slices.Sorted(maps.Keys(t.unhealthy)), ", "))
}

// drawAnew makes room for another one.
func (t *trials) drawAnew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun--
}

func (t *trials) count(folder string, outcome mutants.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.figures[folder] == nil {
		t.figures[folder] = &figure{}
	}
	t.figures[folder][outcome]++
}

func (t *trials) print() {
	var sum figure
	for _, folder := range slices.Sorted(maps.Keys(t.figures)) {
		f := t.figures[folder]
		fmt.Printf("%-24s %v\n", folder, f)
		for outcome, n := range f {
			sum[outcome] += n
		}
	}
	fmt.Printf("%-24s %v\n", "all", &sum)
}
