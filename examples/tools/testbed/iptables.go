package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// natRules returns the nat table as iptables-save prints it, or "" without a working iptables.
func natRules(ctx context.Context) string {
	save, err := lookPath("iptables-save", systemPath)
	if err != nil {
		return ""
	}
	out, err := exec.CommandContext(ctx, save, "-t", "nat").Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// chains returns the names of the chains in the output of iptables-save.
func chains(save string) []string {
	var out []string
	for line := range strings.Lines(save) {
		if name, ok := strings.CutPrefix(line, ":"); ok {
			out = append(out, strings.Fields(name)[0])
		}
	}
	return out
}

// natCleanup returns the input of iptables-restore --noflush that removes the CNI plugins' rules
// and chains for the given networks: the rules whose comment names a network, and the chains to
// which these rules jump. before are the names of the chains that existed before the run. If it is
// not nil, natCleanup also removes the plugins' new shared chains. It returns "" if there are no
// such rules.
func natCleanup(save string, networks []string, before []string) string {
	gone := unusedChains(save, networks, before)
	var deletes []string
	for line := range strings.Lines(save) {
		rule, ok := strings.CutPrefix(strings.TrimSpace(line), "-A ")
		if !ok {
			continue
		}
		chain, _, _ := strings.Cut(rule, " ")
		if !slices.Contains(gone, chain) && (namesNetwork(rule, networks) || slices.Contains(gone, target(rule))) {
			deletes = append(deletes, "-D "+rule)
		}
	}
	if len(gone)+len(deletes) == 0 {
		return ""
	}
	lines := []string{"*nat"}
	for _, chain := range gone {
		lines = append(lines, "-F "+chain)
	}
	lines = append(lines, deletes...)
	for _, chain := range gone {
		lines = append(lines, "-X "+chain)
	}
	return strings.Join(append(lines, "COMMIT"), "\n") + "\n"
}

func unusedChains(save string, networks, before []string) []string {
	var gone []string
	for line := range strings.Lines(save) {
		rule, ok := strings.CutPrefix(strings.TrimSpace(line), "-A ")
		if ok && namesNetwork(rule, networks) {
			if to := target(rule); strings.HasPrefix(to, "CNI-DN-") && !slices.Contains(gone, to) {
				gone = append(gone, to)
			}
		}
	}
	if before == nil {
		return gone
	}
	for _, chain := range chains(save) {
		shared := strings.HasPrefix(chain, "CNI-HOSTPORT-")
		if shared && !slices.Contains(before, chain) && !usedByOthers(save, chain, gone) {
			gone = append(gone, chain)
		}
	}
	return gone
}

// usedByOthers reports whether a shared chain still jumps to the chain of a network that stays.
func usedByOthers(save, chain string, gone []string) bool {
	for line := range strings.Lines(save) {
		rule, ok := strings.CutPrefix(strings.TrimSpace(line), "-A "+chain+" ")
		if to := target(rule); ok && strings.HasPrefix(to, "CNI-DN-") && !slices.Contains(gone, to) {
			return true
		}
	}
	return false
}

func namesNetwork(rule string, networks []string) bool {
	return slices.ContainsFunc(networks, func(n string) bool { return strings.Contains(rule, `\"`+n+`\"`) })
}

// target returns the chain or verdict to which a rule jumps.
func target(rule string) string {
	_, after, ok := strings.Cut(rule, " -j ")
	if !ok {
		return ""
	}
	to, _, _ := strings.Cut(after, " ")
	return to
}

func cleanNAT(ctx context.Context, networks, before []string) error {
	script := natCleanup(natRules(ctx), networks, before)
	if script == "" {
		return nil
	}
	restore, err := lookPath("iptables-restore", systemPath)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, restore, "-w", "10", "--noflush")
	cmd.Stdin = strings.NewReader(script)
	if err := runQuiet(cmd); err != nil {
		return fmt.Errorf("iptables: %w", err)
	}
	return nil
}
