// Package agent puts podwright's rooms together into the node agent: it reads
// manifests from a folder, runs them as pods on a CRI runtime, and tells what it
// does. It is the reference PodSyncer, and the example to copy from.
//
// The parts and what flows between them:
//
//	folder -> podsource.FileSource -> podsource.Merger -> syncloop.Loop -> podworkers.Workers -> syncer
//	                                                         ^                                      |
//	                                     pleg.PLEG ----------+                     cri/pods.Manager +-> runtime
//
// An Agent can be made any number of times in one process, each with a runtime
// and a root folder of its own. Run blocks until its context ends and leaves the
// pods running: an agent that starts later finds them and restarts nothing.
package agent
