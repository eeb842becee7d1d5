package logs

import "strings"

type cleanup struct {
	remove   []string
	compress []string // uncompressed rotated files, oldest first
}

// planCleanup plans the cleanup of the log called base. keep is the number of rotated files that
// may stay. Other files in the folder stay unchanged.
func planCleanup(base string, names []string, keep int) cleanup {
	var plan cleanup
	compressed := map[string]bool{}
	for _, name := range names {
		if r, ok := parseRotated(base, name); ok && r.gz {
			compressed[r.stamp] = true
		}
	}
	var list []string
	for _, name := range names {
		r, ok := parseRotated(base, name)
		switch {
		case isLeftover(base, name):
			// A crash interrupted compression.
			plan.remove = append(plan.remove, name)
		case ok && !r.gz && compressed[r.stamp]:
			// A crash prevented its removal.
			plan.remove = append(plan.remove, name)
		case ok:
			list = append(list, name)
		}
	}
	for i, r := range sortRotated(base, list) {
		switch {
		case i < len(list)-keep:
			plan.remove = append(plan.remove, r.name)
		case !r.gz:
			plan.compress = append(plan.compress, r.name)
		}
	}
	return plan
}

// isLeftover reports whether name is the temporary file of a compression.
func isLeftover(base, name string) bool {
	name, ok := strings.CutSuffix(name, tempSuffix)
	if !ok {
		return false
	}
	_, ok = parseRotated(base, name)
	return ok
}
