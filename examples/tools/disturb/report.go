package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Names of the kubelets in results.
const (
	ourName      = "podwright"
	upstreamName = "upstream"
)

// result is the effect of one disturbance on one kubelet.
type result struct {
	Disturbance, Runtime, Kubelet string
	Transitions                   []transition
	// Remaining are the differences between the end and the state before the disturbance.
	Remaining []transition
	Events    map[string]int
}

// results has the newest result of each disturbance, runtime and kubelet.
type results []result

func readResults(file string) (all results, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

func (all results) write(file string) error {
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func (all *results) put(r result) {
	*all = slices.DeleteFunc(*all, func(o result) bool {
		return o.Disturbance == r.Disturbance && o.Runtime == r.Runtime && o.Kubelet == r.Kubelet
	})
	*all = append(*all, r)
}

func (all results) find(disturbance, runtime, kubelet string) *result {
	for i, r := range all {
		if r.Disturbance == disturbance && r.Runtime == runtime && r.Kubelet == kubelet {
			return &all[i]
		}
	}
	return nil
}

// comparison has both results of one disturbance on one runtime. upstream may be nil.
type comparison struct{ ours, upstream *result }

// comparisons returns the comparisons in the order of the disturbances and runtimes.
func (all results) comparisons() (out []comparison) {
	for _, d := range disturbances() {
		var runtimes []string
		for _, r := range all {
			if r.Disturbance == d.name && !slices.Contains(runtimes, r.Runtime) {
				runtimes = append(runtimes, r.Runtime)
			}
		}
		slices.Sort(runtimes)
		for _, runtime := range runtimes {
			if ours := all.find(d.name, runtime, ourName); ours != nil {
				out = append(out, comparison{ours, all.find(d.name, runtime, upstreamName)})
			}
		}
	}
	return out
}

// worse returns the transitions and remaining differences of ours that upstream lacks.
func (c comparison) worse() (out []string) {
	if c.upstream == nil {
		return nil
	}
	for _, t := range extra(c.ours.Transitions, c.upstream.Transitions) {
		if !slices.Contains(out, t.String()) {
			out = append(out, t.String())
		}
	}
	for _, t := range extra(c.ours.Remaining, c.upstream.Remaining) {
		out = append(out, "at the end "+t.String())
	}
	return out
}

// table returns the transitions and events of both, as Markdown.
func (c comparison) table() string {
	upstream := c.upstream
	if upstream == nil {
		upstream = &result{}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s, %s\n\n| | %s | %s |\n| --- | --- | --- |\n", c.ours.Disturbance, c.ours.Runtime, ourName, upstreamName)
	row := func(name, ours, upstreams string) { fmt.Fprintf(&b, "| %s | %s | %s |\n", name, ours, upstreams) }
	for _, name := range names(c.ours.Transitions, upstream.Transitions) {
		row(name, cell(c.ours.Transitions, name), cell(upstream.Transitions, name))
	}
	for _, name := range names(c.ours.Remaining, upstream.Remaining) {
		row("at the end "+name, count(c.ours.Remaining, name), count(upstream.Remaining, name))
	}
	events := maps.Clone(c.ours.Events)
	if events == nil {
		events = map[string]int{}
	}
	maps.Copy(events, upstream.Events)
	for _, name := range slices.Sorted(maps.Keys(events)) {
		row("event "+name, number(c.ours.Events[name]), number(upstream.Events[name]))
	}
	return b.String()
}

// names returns the different transitions, in the order of their first occurrences.
func names(lists ...[]transition) (out []string) {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b transition) int { return int(a.After - b.After) })
	for _, t := range all {
		if !slices.Contains(out, t.String()) {
			out = append(out, t.String())
		}
	}
	return out
}

// cell returns the times of a transition, each with its reason.
func cell(all []transition, name string) string {
	var times []string
	for _, t := range all {
		if t.String() == name {
			text := fmt.Sprintf("%.1f s", t.After.Round(100*time.Millisecond).Seconds())
			if t.Detail != "" {
				text += " (" + t.Detail + ")"
			}
			times = append(times, text)
		}
	}
	return strings.Join(times, ", ")
}

func count(all []transition, name string) string {
	return number(len(slices.DeleteFunc(slices.Clone(all), func(t transition) bool { return t.String() != name })))
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// summary returns one row for each comparison, as Markdown.
func summary(all []comparison) string {
	var b strings.Builder
	b.WriteString("\n| disturbance | runtime | transitions | of the Node | starts of containers | different at the end | events | only podwright |\n" + strings.Repeat("| --- ", 8) + "|\n")
	for _, c := range all {
		figures := func(of func(r *result) int) string {
			if c.upstream == nil {
				return fmt.Sprint(of(c.ours))
			}
			return fmt.Sprintf("%d; %d", of(c.ours), of(c.upstream))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %d |\n", c.ours.Disturbance, c.ours.Runtime,
			figures(func(r *result) int { return len(r.Transitions) }),
			figures(func(r *result) int {
				return len(slices.DeleteFunc(slices.Clone(r.Transitions), func(t transition) bool { return t.Object != "node" }))
			}),
			figures(func(r *result) int { return restarts(r.Transitions) }),
			figures(func(r *result) int { return len(r.Remaining) }),
			figures(func(r *result) int { return total(r.Events) }), len(c.worse()))
	}
	return b.String()
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
