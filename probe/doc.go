// Package probe runs the liveness, readiness and startup probes of containers.
package probe
