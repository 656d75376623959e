/*
 * ls_shared.c - where the processes find what they share.
 */
#include "postgres.h"

#include "ls_session.h"

LsShared   *ls_shared = NULL;
