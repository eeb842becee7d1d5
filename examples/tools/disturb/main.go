package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"
)

const (
	exitWorse  = 1
	exitUsage  = 2
	exitFailed = 3
)

type options struct {
	only                    *regexp.Regexp
	runtime                 string
	kubelet, from, upstream string
	alone                   bool
	results, logs           string
}

func main() {
	o, err := parseArgs(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(exitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, o)
	stop()
	if err != nil {
		logf("%v", err)
		code = exitFailed
	}
	os.Exit(code)
}

func parseArgs(args []string, usage io.Writer) (options, error) {
	o := options{only: regexp.MustCompile("")}
	flags := flag.NewFlagSet("disturb", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Func("only", "apply only the disturbances whose name matches this regular expression", func(text string) (err error) {
		o.only, err = regexp.Compile(text)
		return err
	})
	flags.StringVar(&o.runtime, "runtime", "", "v1 (containerd 1.6) or v2 (containerd 2.2); default: both")
	flags.StringVar(&o.kubelet, "kubelet", "", "the kubelet; default: build examples/kubelet")
	flags.StringVar(&o.from, "from", "", "the kubelet before agent-upgrade; default: the same program")
	flags.StringVar(&o.upstream, "upstream", "", "upstream's kubelet; default: the control plane builds it")
	flags.BoolVar(&o.alone, "alone", false, "do not run upstream's kubelet")
	flags.StringVar(&o.results, "results", "", "add the results to this file, and compare with its earlier results")
	flags.StringVar(&o.logs, "logs", "", "keep the logs of the kubelets in this folder")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var fault string
	switch {
	case flags.NArg() > 0:
		fault = "unexpected argument: " + flags.Arg(0)
	case o.alone && o.upstream != "":
		fault = "-alone excludes -upstream"
	case o.runtime != "" && o.runtime != "v1" && o.runtime != "v2":
		fault = "-runtime: must be v1 or v2"
	case len(selected(o)) == 0:
		fault = "-only: no disturbance matches"
	}
	if fault != "" {
		fmt.Fprintln(usage, "disturb: "+fault)
		flags.Usage()
		return o, errors.New(fault)
	}
	for _, path := range []*string{&o.kubelet, &o.from, &o.upstream, &o.results, &o.logs} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return o, err
		}
	}
	return o, nil
}

func selected(o options) []disturbance {
	return slices.DeleteFunc(disturbances(), func(d disturbance) bool { return !o.only.MatchString(d.name) })
}

// run applies the disturbances and prints the tables. It returns the exit code.
func run(ctx context.Context, o options) (int, error) {
	c, err := newCluster()
	if err != nil {
		return 0, err
	}
	defer c.client.CloseIdleConnections()
	kubelets, err := programs(ctx, c, o)
	if err != nil {
		return 0, err
	}
	if o.logs == "" {
		o.logs = os.TempDir() // a folder of the testbed
	}
	if err := os.MkdirAll(o.logs, 0o755); err != nil {
		return 0, err
	}
	var all results
	if o.results != "" {
		if all, err = readResults(o.results); err != nil {
			return 0, err
		}
	}
	for _, d := range selected(o) {
		for _, k := range kubelets {
			logf("%s: %s", d.name, k.name)
			found, err := perform(ctx, c, d, k, o)
			if err != nil {
				return report(os.Stdout, all.comparisons()), fmt.Errorf("%s: %s: %w", d.name, k.name, err)
			}
			for _, r := range found {
				all.put(r)
			}
			if o.results != "" {
				if err := all.write(o.results); err != nil {
					return 0, err
				}
			}
		}
	}
	return report(os.Stdout, all.comparisons()), nil
}

// report prints the tables and returns the exit code.
func report(w io.Writer, all []comparison) (code int) {
	for _, c := range all {
		fmt.Fprint(w, c.table())
	}
	fmt.Fprint(w, summary(all))
	for _, c := range all {
		for _, name := range c.worse() {
			code = exitWorse
			fmt.Fprintf(w, "\nonly %s: %s, %s: %s\n", ourName, c.ours.Disturbance, c.ours.Runtime, name)
		}
	}
	return code
}

// perform applies one disturbance to a new node on each runtime.
func perform(ctx context.Context, c *cluster, d disturbance, k kubelet, o options) (found []result, err error) {
	runtimes := slices.DeleteFunc([]containerd{
		{"v1", "containerd 1.6", os.Getenv("PODWRIGHT_CRI_V1")}, {"v2", "containerd 2.2", os.Getenv("PODWRIGHT_CRI_V2")},
	}, func(rt containerd) bool { return o.runtime != "" && o.runtime != rt.key })
	scenes := make([]*scene, len(runtimes))
	defer func() {
		var closing errgroup.Group
		for _, s := range scenes {
			if s != nil {
				closing.Go(func() error { return s.close(ctx) })
			}
		}
		err = errors.Join(err, closing.Wait())
	}()
	starting, setUp := errgroup.WithContext(ctx)
	for i, rt := range runtimes {
		starting.Go(func() (err error) {
			log := filepath.Join(o.logs, d.name+"-"+rt.key+"-"+k.name+".log")
			scenes[i], err = newScene(setUp, c, rt, k, log, d.expiring)
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return nil, err
	}
	return observeAll(ctx, d, scenes)
}

// observeAll applies the disturbance once all scenes are observed.
func observeAll(ctx context.Context, d disturbance, scenes []*scene) ([]result, error) {
	found := make([]result, len(scenes))
	observing, ctx := errgroup.WithContext(ctx)
	ready, applied := make(chan struct{}, len(scenes)), make(chan struct{})
	for i, s := range scenes {
		observing.Go(func() (err error) {
			found[i], err = s.observe(ctx, d.rest, func() error {
				ready <- struct{}{}
				select {
				case <-applied:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			found[i].Disturbance = d.name
			return err
		})
	}
	observing.Go(func() error {
		for range scenes {
			select {
			case <-ready:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := d.apply(ctx, scenes); err != nil {
			return err
		}
		close(applied)
		return nil
	})
	return found, observing.Wait()
}

// programs returns the kubelets. It builds this one if necessary; the control plane builds the
// upstream one.
func programs(ctx context.Context, c *cluster, o options) ([]kubelet, error) {
	ours := kubelet{ourName, o.kubelet, o.from}
	if ours.program == "" {
		ours.program = filepath.Join(os.TempDir(), "disturb-kubelet")
		build := exec.CommandContext(ctx, "go", "build", "-o", ours.program, "./examples/kubelet")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			return nil, err
		}
	}
	if ours.before == "" {
		ours.before = ours.program
	}
	if o.alone {
		return []kubelet{ours}, nil
	}
	if o.upstream == "" {
		path, err := c.plane(ctx, http.MethodGet, "/programs/kubelet")
		if err != nil {
			return nil, err
		}
		o.upstream = string(path)
	}
	return []kubelet{ours, {upstreamName, o.upstream, o.upstream}}, nil
}

func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "disturb: "+format+"\n", args...)
}
