package main

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
)

// The server's type for a subscription is not exported, though the methods of the sublist that take it are. It is made by
// reflection, which also says where its subject is, and the methods are linked to by name.

//go:linkname sublistInsert github.com/nats-io/nats-server/v2/server.(*Sublist).Insert
func sublistInsert(list *server.Sublist, sub unsafe.Pointer) error

//go:linkname sublistRemove github.com/nats-io/nats-server/v2/server.(*Sublist).Remove
func sublistRemove(list *server.Sublist, sub unsafe.Pointer) error

var (
	subType       = reflect.TypeOf((*server.Sublist).Insert).In(1).Elem()
	subjectOffset uintptr
)

func init() {
	subject, ok := subType.FieldByName("subject")
	if !ok || subject.Type != reflect.TypeOf([]byte(nil)) {
		panic("nats: a subscription has no subject any more")
	}
	subjectOffset = subject.Offset
	first := reflect.TypeOf(server.SublistResult{}).Field(0)
	if first.Name != "psubs" || first.Type.Kind() != reflect.Slice {
		panic("nats: a result does not start with its subscriptions any more")
	}
}

// newSubscription makes a subscription, with a copy of its subject as the server makes one.
func newSubscription(subject string) unsafe.Pointer {
	sub := reflect.New(subType).UnsafePointer()
	*(*[]byte)(unsafe.Add(sub, subjectOffset)) = []byte(subject)
	return sub
}

func insert(list *server.Sublist, subject string) unsafe.Pointer {
	sub := newSubscription(subject)
	if err := sublistInsert(list, sub); err != nil {
		panic(err)
	}
	return sub
}

func remove(list *server.Sublist, sub unsafe.Pointer) {
	if err := sublistRemove(list, sub); err != nil {
		panic(errors.Join(errors.New("nats: a subscription is not there"), err))
	}
}

// match says how many subscriptions a subject has.
func match(list *server.Sublist, subject string) int {
	result := list.Match(subject)
	return len(*(*[]unsafe.Pointer)(unsafe.Pointer(result)))
}
