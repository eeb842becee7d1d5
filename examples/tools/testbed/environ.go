package main

import (
	"strings"

	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
)

// withoutTestbedVars drops the variables of this testbed and of a testbed around it.
func withoutTestbedVars(environ []string) []string {
	var out []string
	for _, kv := range environ {
		if !isTestbedVar(kv) {
			out = append(out, kv)
		}
	}
	return out
}

func isTestbedVar(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	switch name {
	case env.Run, env.RequireCRI, env.CRIV1, env.CRIV2, env.Ctl, env.Registry,
		env.ImageBusybox, env.ImagePause, env.ImageTestprog, env.ImageTestprog2, env.ControlPlane:
		return true
	}
	return false
}
