package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// liveRuns returns the other runs whose testbed or watchdog runs. It ignores unreadable records,
// which cleanStale reports.
func (c cache) liveRuns(id string) ([]record, error) {
	here, err := currentMachine()
	if err != nil {
		return nil, err
	}
	rs, _ := c.records()
	var live []record
	for _, r := range rs {
		if r.ID != id && r.judge(here, alive) == verdictLive {
			live = append(live, r)
		}
	}
	return live, nil
}

// cleanStale cleans up after runs whose testbed and watchdog have ended. The caller holds the lock
// "runs".
func (c cache) cleanStale(ctx context.Context, report *reporter) error {
	here, err := currentMachine()
	if err != nil {
		return err
	}
	rs, err := c.records()
	errs := []error{err}
	for _, r := range rs {
		switch r.judge(here, alive) {
		case verdictLive:
			continue
		case verdictForeign:
			if _, err := os.Lstat(r.Dir); errors.Is(err, os.ErrNotExist) {
				errs = append(errs, c.drop(r.ID))
			}
			continue
		}
		begin := time.Now()
		others, err := c.liveRuns(r.ID)
		if err != nil {
			errs = append(errs, err)
		}
		if r.Machine.Boot != here.Boot {
			r.Owner, r.Watchdog, r.Command = procID{}, procID{}, procID{}
		}
		left, err := sweeper{cache: c, run: r, exclusive: len(others) == 0}.sweep(ctx)
		report.printEnd("cleaned up after a run that was killed", begin, left)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// newRun chooses unused names and subnets and saves them in a record. The caller holds the lock
// "runs".
func (c cache) newRun(ctx context.Context, keys ...string) (record, error) {
	var raw [5]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return record{}, err
	}
	r := record{ID: hex.EncodeToString(raw[:3])}
	r.Dir = filepath.Join(os.TempDir(), dirPrefix+r.ID)
	var err error
	if r.Owner, err = identify(os.Getpid()); err != nil {
		return record{}, err
	}
	if r.Machine, err = currentMachine(); err != nil {
		return record{}, err
	}
	live, err := c.liveRuns(r.ID)
	if err != nil {
		return record{}, err
	}
	r.Cgroups, r.Chains = shared(ctx, live)
	if len(live) > 0 {
		r.Kernel = live[0].Kernel
	} else if r.Kernel, err = readKernel("/proc/sys"); err != nil {
		return record{}, err
	}
	used, err := usedSubnets()
	if err != nil {
		return record{}, err
	}
	nets, err := pickSubnets(len(keys), append(used, subnets(live)...), binary.NativeEndian.Uint16(raw[3:]))
	if err != nil {
		return record{}, err
	}
	for i, key := range keys {
		r.Networks = append(r.Networks, newNetwork(r.ID, key, nets[i]))
	}
	return r, c.save(r)
}

// shared returns the cgroups and chains of shared names that existed before the live testbeds. The
// last testbed removes all others.
func shared(ctx context.Context, live []record) (cgroups, natChains []string) {
	if len(live) > 0 {
		return live[0].Cgroups, live[0].Chains
	}
	for _, dir := range cgroupDirs(cgroupRoot) {
		if podParent(dir) != "" {
			cgroups = append(cgroups, dir)
		}
	}
	for _, chain := range chains(natRules(ctx)) {
		if strings.HasPrefix(chain, "CNI-") {
			natChains = append(natChains, chain)
		}
	}
	return cgroups, natChains
}
