package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podwright/podwright/examples/tools/internal/control"
)

type peer struct{ name, binary, settings string }

// peers returns this kubelet and, with -upstream, the upstream one.
func peers(ctx context.Context, binary string, o options) ([]peer, error) {
	all := []peer{{"podwright", binary, ownSettings}}
	if !o.upstream {
		return all, nil
	}
	path, err := controlRequest(ctx, "/programs/kubelet")
	return append(all, peer{"upstream", path, upstreamSettings}), err
}

// ownSettings keep the cgroups apart from another kubelet's on the machine, allow many pods, and
// prevent evictions on a machine with a nearly full disk.
const ownSettings = "failCgroupV1: false\ncgroupRoot: /podwright-bench\nmaxPods: 2000\nevictionHard: {memory.available: 100Mi}\n"

// upstreamSettings let the upstream kubelet start on this machine, even without an API server, and
// prevent evictions on a machine with a nearly full disk.
const upstreamSettings = `cgroupDriver: cgroupfs
failCgroupV1: false
maxPods: 2000
evictionHard: {memory.available: 100Mi}
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
`

// upstreamTimeout bounds a request to the control plane, which may build the upstream kubelet.
const upstreamTimeout = 30 * time.Minute

// controlRequest makes a request to the control endpoint of the control plane and returns its
// response.
func controlRequest(ctx context.Context, path string) (string, error) {
	folder := os.Getenv("PODWRIGHT_CONTROLPLANE")
	if folder == "" {
		return "", errors.New("no control plane: run bench as the command of go run ./examples/tools/testbed -controlplane")
	}
	body, err := control.Do(ctx, http.MethodGet, filepath.Join(folder, "ctl.sock"), path, upstreamTimeout)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return string(body), err
}

// table has one column per kubelet or floor. put prints each figure at once; print prints all of
// them.
type table struct {
	columns, rows []string
	cells         map[[2]string]string
}

func (t *table) put(column, row, value string) {
	fmt.Fprintf(os.Stderr, "  %-10s %-40s %s\n", column, row, value)
	if t.cells == nil {
		t.cells = map[[2]string]string{}
	}
	if !slices.Contains(t.columns, column) {
		t.columns = append(t.columns, column)
	}
	if !slices.Contains(t.rows, row) {
		t.rows = append(t.rows, row)
	}
	t.cells[[2]string{column, row}] = value
}

// print prints the table as Markdown, for docs/figures.md.
func (t *table) print(title string) {
	fmt.Printf("\n| %s | %s |\n|---|%s\n", title, strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)))
	for _, row := range t.rows {
		fmt.Printf("| %s |", row)
		for _, column := range t.columns {
			fmt.Printf(" %s |", t.cells[[2]string{column, row}])
		}
		fmt.Println()
	}
}

// times formats a duration and its ratio to the floor.
func times(d, floor time.Duration) string {
	return fmt.Sprintf("%s (%.2f)", ms(d), float64(d)/float64(floor))
}
