// Package mirrors keeps mirror pods: copies of static pods at an API server, which show clients the
// static pods of the node.
//
//	manager, err := mirrors.New(mirrors.Config{Client: client, Node: node})
//	go manager.Run(ctx)
//	manager.Sync(w.Pod, w.MirrorPod)   // at each sync of a static pod
//	cleaners = append(cleaners, manager.Cleaner())
//	manager.Wake()                     // when the Node appears
//
// A mirror is the static pod with its hash in an annotation, owned by the Node. It starts and stops
// nothing. A mirror with another hash or Node, or one that is being deleted, is replaced. A deleted
// mirror is created again at the next sync of its pod. Housekeeping deletes mirrors without a
// static pod; it does not run before all sources are known.
//
// The package does not delay pods: Sync records the desired mirror, and Run creates it, with growing
// pauses after failures. Deletions name the UID. A pod with the mirror's name that is not a mirror
// of this node is never changed.
package mirrors
