package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// record contains the data to clean up after a testbed that was killed. It is written before the
// resources that it names are created.
type record struct {
	ID       string // six hex digits
	Dir      string // the temporary folder with all files of the run
	Owner    procID // the testbed
	Watchdog procID
	Command  procID // leader of the command's process group; zero before its start
	Machine  machine
	Networks []network

	// State before the first of the testbeds that run at the same time.
	Cgroups []string
	Chains  []string
	Kernel  map[string]string // kernel parameters
}

// procID identifies a process uniquely. Process ids are reused, but not with the same start time.
type procID struct {
	PID   int
	Start uint64 // clock ticks after boot
}

// machine identifies the scope of process ids.
type machine struct {
	Boot  string // changes with every boot
	PIDNS string // the PID namespace
}

func currentMachine() (machine, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return machine{}, err
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return machine{}, err
	}
	return machine{Boot: strings.TrimSpace(string(boot)), PIDNS: ns}, nil
}

// verdict is the result of judge.
type verdict int

const (
	verdictLive    verdict = iota // its testbed or its watchdog runs
	verdictStale                  // neither runs
	verdictForeign                // in another PID namespace, where its processes are invisible
)

// judge returns whether the run is live, stale or foreign.
func (r record) judge(here machine, alive func(procID) bool) verdict {
	switch {
	case r.Machine.Boot != here.Boot:
		return verdictStale
	case r.Machine.PIDNS != here.PIDNS:
		return verdictForeign
	case alive(r.Owner) || alive(r.Watchdog):
		return verdictLive
	}
	return verdictStale
}

func (c cache) recordPath(id string) string { return filepath.Join(c.runs(), id+".json") }

// save replaces the record atomically.
func (c cache) save(r record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	tmp := c.recordPath(r.ID) + ".tmp"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, c.recordPath(r.ID))
}

func (c cache) load(id string) (record, error) {
	var r record
	text, err := os.ReadFile(c.recordPath(id))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", c.recordPath(id), err)
	}
	return r, r.validate()
}

// validate returns an error unless the names in the record are names that a testbed chooses. The
// clean-up kills and deletes by these names.
func (r record) validate() error {
	if len(r.ID) != 6 || strings.Trim(r.ID, "0123456789abcdef") != "" {
		return fmt.Errorf("record: bad id %q", r.ID)
	}
	if !filepath.IsAbs(r.Dir) || filepath.Base(r.Dir) != dirPrefix+r.ID {
		return fmt.Errorf("record %s: bad folder %q", r.ID, r.Dir)
	}
	for _, n := range r.Networks {
		if n != newNetwork(r.ID, strings.TrimPrefix(n.Bridge, "pw"+r.ID), n.Subnet) {
			return fmt.Errorf("record %s: bad network %q", r.ID, n.Name)
		}
	}
	return nil
}

// dirPrefix is the prefix of the name of a run's folder. It is short because paths of unix sockets
// are limited to 107 bytes and tests add long names.
const dirPrefix = "pwtb-"

// records returns all readable records, and the errors of unreadable ones.
func (c cache) records() ([]record, error) {
	paths, err := filepath.Glob(filepath.Join(c.runs(), "*.json"))
	if err != nil {
		return nil, err
	}
	var out []record
	var errs []error
	for _, path := range paths {
		r, err := c.load(strings.TrimSuffix(filepath.Base(path), ".json"))
		switch {
		case errors.Is(err, fs.ErrNotExist): // its run has just ended
		case err != nil:
			errs = append(errs, err)
		default:
			out = append(out, r)
		}
	}
	return out, errors.Join(errs...)
}

func (c cache) drop(id string) error {
	err := os.Remove(c.recordPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func subnets(rs []record) []netip.Prefix {
	var out []netip.Prefix
	for _, r := range rs {
		for _, n := range r.Networks {
			out = append(out, n.Subnet)
		}
	}
	return out
}
