// Package lifecycletest is an agent of somebody else: on its node there are no
// containers, a pod is a Go function. Everything about the life of pods is left to
// podworkers; the agent is a PodSyncer of three methods. Its tests show how such a
// syncer is unit-tested with podworkerstest: ten minutes of a crash loop in virtual
// time, calls that fail, and scripts.
package lifecycletest
