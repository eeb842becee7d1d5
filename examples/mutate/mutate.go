package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	mutants "github.com/podwright/podwright/internal/mutate"
)

type candidate = mutants.Placed

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
			place := fmt.Sprintf("%s:%d", c.File, c.Line)
			return line == c.String() || line == place || line == place+":"+c.Operator
		})
		if len(found) == 0 {
			found = having(all, func(c candidate) bool {
				return strings.HasPrefix(line, c.File+":") && strings.HasSuffix(line, ": "+c.Mutant.String())
			})
		}
		out = append(out, having(found, func(c candidate) bool {
			return !slices.ContainsFunc(out, func(d candidate) bool { return c.File == d.File && c.Mutant == d.Mutant })
		})...)
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
			all = append(all, candidate{File: file, Source: source, Mutant: m})
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

// trials is the work that several goroutines share.
type trials struct {
	options
	queue []candidate // still to be tried

	mu        sync.Mutex // protects what came of those that were tried
	tried     int
	figures   map[string]*figure
	unhealthy map[string]error // what the tests of folders say without a mutant
}

// work tries mutants, those of a folder together. What does not compile or cannot be
// tested does not count, so others are drawn.
func (t *trials) work(ctx context.Context) error {
	for t.tried < t.n && len(t.queue) > 0 {
		drawn := t.queue[:min(t.n-t.tried, len(t.queue))]
		t.queue = t.queue[len(drawn):]
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(t.parallel)
		folders := map[string][]candidate{}
		for _, c := range drawn {
			folders[filepath.Dir(c.File)] = append(folders[filepath.Dir(c.File)], c)
		}
		for _, folder := range slices.Sorted(maps.Keys(folders)) {
			group.Go(func() error { return t.folder(ctx, folder, folders[folder]) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// folder runs the tests of a folder on mutants of its sources, and then those that
// show the same.
func (t *trials) folder(ctx context.Context, folder string, drawn []candidate) error {
	if t.unhealthy[folder] != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	left, err := mutants.Compiling(ctx, folder, dir, drawn)
	if err != nil {
		return t.untested(ctx, folder, err)
	}
	for _, tested := range append([]string{folder}, alsoTestedBy[folder]...) {
		tests, limits, err := t.build(ctx, tested, dir, left)
		if err != nil {
			return t.untested(ctx, tested, err)
		}
		passing, err := tests.Passing(ctx, len(left), limits)
		if err != nil {
			return err
		}
		if left, err = t.try(ctx, folder, tests, limits, passing, left); err != nil {
			return err
		}
	}
	for _, c := range left {
		t.count(folder, mutants.Survived)
		fmt.Println(survived, c)
	}
	return nil
}

// build compiles the tests of a folder with mutants in them, and runs them without.
// How long that takes bounds how long they may take with one.
func (t *trials) build(ctx context.Context, folder, dir string, all []candidate) (mutants.Tests, mutants.Limits, error) {
	limits := mutants.Limits{Run: t.run, Timeout: t.timeout}
	sources, err := mutants.Combine(all)
	if err != nil {
		return mutants.Tests{}, limits, err
	}
	tests, err := mutants.Build(ctx, folder, dir, sources)
	if err != nil {
		return tests, limits, err
	}
	begun := time.Now()
	outcome, out, err := tests.Test(ctx, 0, limits)
	if err == nil && outcome != mutants.Survived {
		err = fmt.Errorf("the tests of %s fail without a mutant:\n%s", folder, out)
	}
	took := time.Since(begun)
	limits.Timeout = min(t.timeout, 5*time.Second+10*took)
	limits.CPU = 3 + int(float64(max(2, runtime.NumCPU()))*took.Seconds()) // they may have kept all processors busy
	return tests, limits, err
}

// try runs on each mutant the tests that come by it, and returns those that survived.
func (t *trials) try(ctx context.Context, folder string, tests mutants.Tests, limits mutants.Limits, passing map[int]string, all []candidate) ([]candidate, error) {
	var left []candidate
	for i, c := range all {
		begun := time.Now()
		if limits.Run = passing[i+1]; limits.Run == "" {
			left = append(left, c)
			continue
		}
		outcome, out, err := tests.Test(ctx, i+1, limits)
		switch {
		case err != nil:
			return nil, err
		case outcome == mutants.Survived:
			left = append(left, c)
			continue
		case outcome == mutants.Expired:
			fmt.Println(expired, c)
		case t.verbose:
			fmt.Printf("noticed  %s (%.1fs)\n%.300s\n", c, time.Since(begun).Seconds(), out)
		}
		t.count(folder, outcome)
	}
	return left, nil
}

// untested notes a folder whose tests cannot say anything.
func (t *trials) untested(ctx context.Context, folder string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unhealthy[folder] == nil {
		fmt.Printf("UNTESTED %s: %v\n", folder, err)
	}
	t.unhealthy[folder] = err
	return nil
}

// sick names the folders of which nothing was tried.
func (t *trials) sick() error {
	if len(t.unhealthy) == 0 {
		return nil
	}
	return fmt.Errorf("not tried, since they do not build or fail without a mutant: %s", strings.Join(slices.Sorted(maps.Keys(t.unhealthy)), ", "))
}

func (t *trials) count(folder string, outcome mutants.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tried++
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
