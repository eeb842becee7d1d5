package config

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// gateList has the feature gates of Kubernetes v1.36: name, default, what of that can be
// changed here, and how far the feature has come.
//
//go:embed gatelist.txt
var gateList string

// What can be changed of a gate.
const (
	lockedGate = "locked" // nothing, as upstream
	alwaysGate = "always" // it may be true: the kubelet does what it switches
	neverGate  = "never"  // it may be false: the kubelet does not
	freeGate   = "free"   // all: it is another component's, or switched here
)

type gate struct {
	preset bool
	kind   string
	stage  string
}

func gates() map[string]gate {
	all := map[string]gate{}
	for line := range strings.Lines(gateList) {
		if f := strings.Fields(line); len(f) == 4 {
			all[f[0]] = gate{preset: f[1] == "true", kind: f[2], stage: f[3]}
		}
	}
	return all
}

// why is the reason why a gate cannot have a value, "" if it can.
func (g gate) why(value bool) string {
	switch {
	case value == g.preset, g.kind == freeGate, g.kind == alwaysGate && value, g.kind == neverGate && !value:
		return ""
	case g.kind == lockedGate:
		return fmt.Sprintf("is locked to %t", g.preset)
	case value:
		return "true asks for behaviour that this kubelet does not have"
	default:
		return "false asks to do without behaviour that this kubelet always has"
	}
}

// gates checks the feature gates. Those of other components may be given too, since one
// list is often given to all.
func (p *problems) gates(k *kubeletv1beta1.KubeletConfiguration) {
	known := gates()
	for _, name := range slices.Sorted(maps.Keys(k.FeatureGates)) {
		why := "is no feature gate of Kubernetes v1.36"
		if g, ok := known[name]; ok {
			why = g.why(k.FeatureGates[name])
		}
		p.refuse(why != "", "featureGates (--feature-gates): %s %s", name, why)
	}
}
